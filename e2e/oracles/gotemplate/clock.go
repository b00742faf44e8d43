package main

import (
	"text/template"
	"time"
)

// atTheTime stops the clock of every function that reads it.
//
// The library asks the system for the time only where a value is no time, so handing it the
// moment in that place is all that is needed.
func atTheTime(known template.FuncMap, now time.Time) template.FuncMap {
	moment := func(value any) any {
		switch value.(type) {
		case time.Time, *time.Time, int64, int, int32:
			return value
		}
		return now
	}
	date := known["date"].(func(string, any) string)
	inZone := known["dateInZone"].(func(string, any, string) string)
	htmlDate := known["htmlDate"].(func(any) string)
	htmlDateInZone := known["htmlDateInZone"].(func(any, string) string)
	ago := known["ago"].(func(any) string)

	known["now"] = func() time.Time { return now }
	known["date"] = func(layout string, value any) string { return date(layout, moment(value)) }
	known["dateInZone"] = func(layout string, value any, zone string) string {
		return inZone(layout, moment(value), zone)
	}
	known["date_in_zone"] = known["dateInZone"]
	known["htmlDate"] = func(value any) string { return htmlDate(moment(value)) }
	known["htmlDateInZone"] = func(value any, zone string) string {
		return htmlDateInZone(moment(value), zone)
	}
	known["ago"] = func(value any) string {
		// Only what the library takes for a moment is shifted; the rest means "now" to it.
		var then time.Time
		switch value := value.(type) {
		case time.Time:
			then = value
		case int64:
			then = time.Unix(value, 0)
		case int:
			then = time.Unix(int64(value), 0)
		default:
			return ago(value)
		}
		return ago(time.Now().Add(then.Sub(now)))
	}
	return known
}
