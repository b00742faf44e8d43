// What does sigs.k8s.io/yaml make of a text?
//
// Reads lines of {"yaml": text}, writes each back with "json" (the data that
// Kubernetes' tools would see) or "error".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

type question struct {
	YAML string `json:"yaml"`
}

type answer struct {
	YAML  string          `json:"yaml"`
	JSON  json.RawMessage `json:"json,omitempty"`
	Error string          `json:"error,omitempty"`
	// What the reader says when keys given twice are not allowed.
	Strict string `json:"strict,omitempty"`
}

func ask(text string) (told answer) {
	told.YAML = text
	defer func() {
		if crash := recover(); crash != nil {
			told.JSON, told.Error = nil, fmt.Sprint("panic: ", crash)
		}
	}()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		told.Error = err.Error()
		return told
	}
	told.JSON = data
	if _, err := yaml.YAMLToJSONStrict([]byte(text)); err != nil {
		told.Strict = err.Error()
	}
	return told
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	answers := json.NewEncoder(os.Stdout)
	answers.SetEscapeHTML(false)
	for lines.Scan() {
		var asked question
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := answers.Encode(ask(asked.YAML)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
