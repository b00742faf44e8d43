"""Jinja2 templates, parsed once and carried out many times."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from jinja2 import Environment, Template, TemplateSyntaxError, UndefinedError, nodes
from jinja2.exceptions import TemplateError as JinjaError

from kanister_py.core.errors import did_you_mean
from kanister_py.core.objects.documents import nearest
from kanister_py.core.templates.errors import (
    TemplateError,
    TemplateExecError,
    TemplateLimitExceeded,
    TemplateParseError,
)
from kanister_py.core.templates.go import template_error
from kanister_py.core.templates.jinja.filters import FILTERS, GLOBALS, TESTS
from kanister_py.core.templates.jinja.rewriting import Rewriter, finalize
from kanister_py.core.templates.jinja.sandbox import BlueprintContext, BlueprintEnvironment, Missing
from kanister_py.core.templates.jinja.values import Callee, Meter
from kanister_py.core.templates.param_types import ROOT_NAMES
from kanister_py.gotemplate import DEFAULT, NO_EFFECTS, Budget, Effects, GoError, Limits
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.values import byte_length
from kanister_py.patterns import pattern_of

if TYPE_CHECKING:
    from kanister_py.core.templates.params import Params


UNDEFINED: Final = "TemplateUndefined"
"""The reason of a template that uses something which is not there; `why` names it."""
NO_FUNCTIONS: Mapping[str, Callee] = {}
_MOST_KEPT = 2048
_MOST_CHARACTERS = 1024 * 1024

# What Python says when a template does to a value what the value cannot do.
_MISUSES = (
    *(JinjaError, GoError),
    *(ArithmeticError, AttributeError, LookupError, TypeError, ValueError),
)


@cache
def _environment() -> BlueprintEnvironment:
    environment = BlueprintEnvironment(
        undefined=Missing,
        finalize=finalize,
        autoescape=False,
        keep_trailing_newline=True,
        # What can be known beforehand would be worked out before anything is counted.
        optimized=False,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters = dict(FILTERS)
    environment.tests = dict(TESTS)
    environment.globals = dict(GLOBALS)
    return environment


class JinjaTemplate:
    """A parsed template, ready to be carried out over any params."""

    __slots__ = ("_template",)

    def __init__(self, template: Template) -> None:
        self._template = template

    def execute(
        self,
        data: Params | Mapping[str, Any],
        effects: Effects = NO_EFFECTS,
        limits: Limits = DEFAULT,
        budget: Budget | None = None,
        functions: Mapping[str, Callee] = NO_FUNCTIONS,
    ) -> str:
        """Render the template over params, or over plain data whose keys are its names.

        `functions` may be called besides those that every template has.
        """
        meter = Meter(effects, limits, budget)
        context = self._template.new_context(dict(functions))
        assert isinstance(context, BlueprintContext)
        context.meter = meter
        if isinstance(data, Mapping):
            context.root = context.names = data
        else:
            context.root, context.names = data.root, ROOT_NAMES
        size = 0
        pieces = []
        try:
            for piece in self._template.root_render_func(context):
                size += byte_length(piece)
                meter.check_size(size)
                pieces.append(piece)
        except LimitExceeded as error:
            error.line = self._line_of(error)
            raise template_error(error) from None
        except RecursionError:
            raise TemplateLimitExceeded("depth", "it is nested too deep") from None
        except _MISUSES as error:
            self._fail(error)
        finally:
            meter.close()
        return "".join(pieces)

    def _fail(self, error: Exception) -> NoReturn:
        line = self._line_of(error)
        why = str(error) or type(error).__name__
        message = f"Line {line}: {why}"
        reason = UNDEFINED if isinstance(error, UndefinedError) else ""
        raise TemplateExecError(message, line, why, reason=reason) from None

    def _line_of(self, error: BaseException) -> int:
        """Give the line of the template where it happened; the innermost one counts."""
        line = 0
        place: TracebackType | None = error.__traceback__
        while place is not None:
            if place.tb_frame.f_globals.get("__jinja_template__") is self._template:
                line = self._template.get_corresponding_lineno(place.tb_lineno)
            place = place.tb_next
        return line


@lru_cache(maxsize=_MOST_KEPT)
def compile_jinja(text: str) -> JinjaTemplate:
    """Parse a text, or take what an earlier call made of it."""
    environment = _environment()
    if len(text) > _MOST_CHARACTERS:
        raise _unreadable(f"a template has at most {_MOST_CHARACTERS} characters", 0)
    try:
        tree = Rewriter().visit(environment.parse(text))
        code = environment.compile(tree)
        return JinjaTemplate(Template.from_code(environment, code, environment.globals))
    except TemplateSyntaxError as error:
        raise _unreadable(_meant(str(error.message), environment), error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError):
        # The last is what Python says of code that is nested deeper than it allows.
        raise _unreadable("it is nested too deep", 0) from None
    except ValueError as error:
        raise _unreadable(str(error), 0) from None


def parse_jinja(text: str) -> nodes.Template:
    """Give the tree of a text that can be compiled, or say why it cannot."""
    compile_jinja(text)
    return _environment().parse(text)


def _meant(why: str, environment: Environment) -> str:
    """Name the filter or test that may be meant by one that is not known."""
    found = _UNKNOWN.fullmatch(why)
    if found is None:
        return why.removesuffix(".")
    known = environment.filters if found[1] == "filter" else environment.tests
    names = [each for each in known if each[:1].isalpha()]
    return f"there is no {found[1]} {found[2]}{did_you_mean(nearest(found[2], names))}"


_UNKNOWN: Final = pattern_of(r"No (filter|test) named '(.*)'\.")


def _unreadable(why: str, line: int) -> TemplateError:
    return TemplateParseError(f"Line {line}: {why}" if line else why.capitalize(), line)
