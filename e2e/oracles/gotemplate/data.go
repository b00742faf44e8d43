package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"kanister-py.io/oracles/gotemplate/param"
)

// read makes the Go value that a case's data stands for.
//
// Plain JSON is what Kubernetes makes of it: whole numbers are int64, other numbers float64,
// objects map[string]any. An object with a single key that starts with "$" names another type.
// No list has room behind its end: how much the decoder happened to ask for is no part of a case.
func read(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var plain any
	if err := decoder.Decode(&plain); err != nil {
		return nil, err
	}
	return typed(plain)
}

func typed(plain any) (any, error) {
	switch plain := plain.(type) {
	case json.Number:
		if strings.ContainsAny(string(plain), ".eE") {
			return plain.Float64()
		}
		return plain.Int64()
	case []any:
		made := make([]any, len(plain))
		for i, item := range plain {
			value, err := typed(item)
			if err != nil {
				return nil, err
			}
			made[i] = value
		}
		return made, nil
	case map[string]any:
		if len(plain) == 1 {
			for key, value := range plain {
				if strings.HasPrefix(key, "$") {
					return tagged(key, value)
				}
			}
		}
		made := make(map[string]any, len(plain))
		for key, item := range plain {
			value, err := typed(item)
			if err != nil {
				return nil, err
			}
			made[key] = value
		}
		return made, nil
	}
	return plain, nil
}

func tagged(tag string, value any) (any, error) {
	switch tag {
	case "$bytes":
		data, err := base64.StdEncoding.DecodeString(value.(string))
		return slices.Clip(data), err
	case "$int":
		number, err := value.(json.Number).Int64()
		return int(number), err
	case "$float":
		return strconv.ParseFloat(value.(string), 64)
	case "$time":
		return time.Parse(time.RFC3339Nano, value.(string))
	case "$texts":
		items, err := as[[]string](value)
		return slices.Clip(items), err
	case "$ints":
		items, err := as[[]int](value)
		return slices.Clip(items), err
	case "$textmap":
		return as[map[string]string](value)
	case "$bytesmap":
		return as[map[string][]byte](value)
	case "$params":
		params, err := as[param.TemplateParams](value)
		if err != nil {
			return nil, err
		}
		// A Kubernetes object has whole numbers as int64, where plain JSON has float64.
		if object, ok := value.(map[string]any)["Object"]; ok && object != nil {
			made, err := typed(object)
			if err != nil {
				return nil, err
			}
			params.Object = made.(map[string]any)
		}
		return params, nil
	}
	return nil, fmt.Errorf("no type is called %s", tag)
}

func as[T any](value any) (T, error) {
	var made T
	text, err := json.Marshal(value)
	if err != nil {
		return made, err
	}
	err = json.Unmarshal(text, &made)
	return made, err
}
