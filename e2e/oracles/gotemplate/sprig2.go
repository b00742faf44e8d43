//go:build !sprig3

package main

import (
	"fmt"
	"text/template"

	"github.com/Masterminds/sprig"
)

// functions says what a blueprint's template may call: sprig 2.22.0, with the functions that
// Kanister forbids or narrows laid over it.
func functions() template.FuncMap {
	known := sprig.TxtFuncMap()
	generate := known["genPrivateKey"].(func(string) string)
	known["derivePassword"] = func(uint32, string, string, string, string) (string, error) {
		return "", notAllowed("derivePassword")
	}
	known["genPrivateKey"] = func(kind string) (string, error) {
		switch kind {
		case "rsa", "ecdsa", "ed25519":
			return generate(kind), nil
		}
		return "", notAllowed("genPrivateKey for " + kind + " key")
	}
	return known
}

func notAllowed(usage string) error {
	return fmt.Errorf("sprig usage of '%s' is not allowed by kanister as it is not FIPS compatible", usage)
}
