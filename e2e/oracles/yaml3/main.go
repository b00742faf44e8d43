// What does yaml.v3 read of a text, where nobody says which types are wanted?
//
// Reads lines of {"yaml": text}, writes each back with "value", in which each
// type is named where JSON has none of its own, or "error".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"time"

	"gopkg.in/yaml.v3"
)

func written(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return bytes.TrimSpace(text.Bytes())
}

func shown(value any) any {
	switch found := value.(type) {
	case nil, string, bool:
		return found
	case map[string]any:
		members := map[string]any{}
		for key, each := range found {
			members[key] = shown(each)
		}
		return members
	case map[any]any:
		members := []string{}
		for key, each := range found {
			members = append(members, string(written([2]any{shown(key), shown(each)})))
		}
		sort.Strings(members)
		return map[string]any{"$members": members}
	case []any:
		items := []any{}
		for _, each := range found {
			items = append(items, shown(each))
		}
		return items
	case time.Time:
		return map[string]any{"$time": found.Format(time.RFC3339Nano)}
	default:
		return map[string]any{fmt.Sprintf("$%T", value): fmt.Sprint(value)}
	}
}

func ask(text string) (told map[string]any) {
	told = map[string]any{"yaml": text}
	defer func() {
		if crash := recover(); crash != nil {
			told["error"] = fmt.Sprint("panic: ", crash)
		}
	}()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		told["error"] = err.Error()
		return told
	}
	told["value"] = shown(value)
	return told
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var asked struct{ YAML string }
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(string(written(ask(asked.YAML))))
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
