//go:build sprig3

package main

import (
	"text/template"

	"github.com/Masterminds/sprig/v3"
)

// functions says what a composition's template may call: sprig 3.3 without the environment.
func functions() template.FuncMap {
	known := sprig.TxtFuncMap()
	delete(known, "env")
	delete(known, "expandenv")
	return known
}
