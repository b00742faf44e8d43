// Program gotemplate answers what Go's text/template makes of templates.
//
//	gotemplate              one JSON case a line in, one JSON answer a line out
//	gotemplate bench -n N   the same cases; nanoseconds for each, then for all
//
// A case: {"id", "template", "data", "missingkey", "now"}; an answer: {"id", "output"},
// {"id", "outputBase64"} where the output is no UTF-8, or {"id", "error"}.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"text/template"
	"time"
	"unicode/utf8"
)

type Case struct {
	ID         string          `json:"id"`
	Template   string          `json:"template"`
	Data       json.RawMessage `json:"data"`
	MissingKey string          `json:"missingkey"`
	Now        *time.Time      `json:"now"`
}

type Answer struct {
	ID           string  `json:"id"`
	Output       *string `json:"output,omitempty"`
	OutputBase64 *string `json:"outputBase64,omitempty"`
	Error        *string `json:"error,omitempty"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bench" {
		flags := flag.NewFlagSet("bench", flag.ExitOnError)
		times := flags.Int("n", 200, "how often each template is rendered")
		if err := flags.Parse(os.Args[2:]); err != nil {
			fail(err)
		}
		bench(*times)
		return
	}
	answers := bufio.NewWriter(os.Stdout)
	defer answers.Flush()
	eachCase(func(asked Case, data any) {
		// A reader may wait for the answer before it asks again.
		defer answers.Flush()
		write(answers, answer(asked, data))
	})
}

func eachCase(use func(Case, any)) {
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			var asked Case
			if err := json.Unmarshal(line, &asked); err != nil {
				fail(err)
			}
			var data any
			if len(asked.Data) > 0 {
				if data, err = read(asked.Data); err != nil {
					fail(fmt.Errorf("data of case %s: %w", asked.ID, err))
				}
			}
			use(asked, data)
		}
		if err != nil {
			return
		}
	}
}

func answer(asked Case, data any) Answer {
	output, err := render(asked, data)
	if err != nil {
		text := err.Error()
		return Answer{ID: asked.ID, Error: &text}
	}
	if !utf8.ValidString(output) {
		text := base64.StdEncoding.EncodeToString([]byte(output))
		return Answer{ID: asked.ID, OutputBase64: &text}
	}
	return Answer{ID: asked.ID, Output: &output}
}

// render does what Kanister does with every string, every time: the functions are gathered, the
// text is parsed, the template is run.
func render(asked Case, data any) (string, error) {
	mode := asked.MissingKey
	if mode == "" {
		mode = "error"
	}
	known := functions()
	if asked.Now != nil {
		known = atTheTime(known, *asked.Now)
	}
	parsed, err := template.New("config").Option("missingkey=" + mode).Funcs(known).Parse(asked.Template)
	if err != nil {
		return "", err
	}
	output := bytes.NewBuffer(nil)
	if err := parsed.Execute(output, data); err != nil {
		return "", err
	}
	return output.String(), nil
}

func bench(times int) {
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	total, cases := time.Duration(0), 0
	eachCase(func(asked Case, data any) {
		start := time.Now()
		for range times {
			_, _ = render(asked, data)
		}
		spent := time.Since(start)
		total += spent
		cases++
		write(output, map[string]any{"id": asked.ID, "ns": float64(spent.Nanoseconds()) / float64(times)})
	})
	if cases > 0 {
		write(output, map[string]any{
			"strings": cases, "times": times,
			"nsPerString": float64(total.Nanoseconds()) / float64(times*cases),
		})
	}
}

func write(output *bufio.Writer, value any) {
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "gotemplate:", err)
	os.Exit(1)
}
