// examples/go/internal/workload/args.go -- the command line of a workload, described by a table.
//
// The twin of workloads/support_args.c: the same table, the same checks in the same order, and the same two
// lines on stderr for wrong usage.
package workload

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Kind says what an argument's value must look like.
type Kind int

const (
	Number Kind = iota // decimal digits, Min to Max, into Number
	Choice             // one of Choices, into Text
	Text               // anything, into Text
)

// Arg is one row of the table.
type Arg struct {
	Name     string // "--allocs" is an option; "depth" a positional argument, in the order of the table
	Kind     Kind
	Min, Max uint64
	Number   *uint64
	Choices  string // "default|arena|pool"
	Text     *string
	Optional bool // a positional argument that may be left out; options always may
}

// Workload is a program's name and its command line.
type Workload struct {
	Name     string
	Synopsis string // what follows "usage: NAME "
	Args     []Arg
}

// Reject ends the program for wrong usage: what, a colon and value on the first line.
func (w *Workload) Reject(what, value string) {
	fmt.Fprintf(os.Stderr, "%s: %s: %s\nusage: %s %s\n", w.Name, what, value, w.Name, w.Synopsis)
	os.Exit(2)
}

func isOption(name string) bool { return len(name) > 1 && name[0] == '-' }

// label is the name as messages say it: without dashes.
func (a *Arg) label() string { return strings.TrimPrefix(a.Name, "--") }

func parseNumber(text string) (number uint64, ok bool) {
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' || number > (math.MaxUint64-9)/10 {
			return 0, false
		}
		number = number*10 + uint64(text[i]-'0')
	}
	return number, text != ""
}

func (w *Workload) set(a *Arg, text string) {
	switch a.Kind {
	case Number:
		number, ok := parseNumber(text)
		if !ok || number < a.Min || number > a.Max {
			w.Reject("bad "+a.label(), text)
		}
		*a.Number = number
	case Choice:
		if !slices.Contains(strings.Split(a.Choices, "|"), text) {
			w.Reject("unknown "+a.label(), text)
		}
		*a.Text = text
	case Text:
		*a.Text = text
	}
}

func (w *Workload) option(name string) *Arg {
	for i := range w.Args {
		if w.Args[i].Name == name {
			return &w.Args[i]
		}
	}
	w.Reject("unknown option", name)
	return nil
}

// nextPositional is the first positional argument at or after row; len(w.Args) if there is none.
func (w *Workload) nextPositional(row int) int {
	for row < len(w.Args) && isOption(w.Args[row].Name) {
		row++
	}
	return row
}

// parse reads the command line into the places that the table names; those not given keep their values.
func (w *Workload) parse(args []string) {
	row := w.nextPositional(0)
	for i := 0; i < len(args); i++ {
		switch {
		case isOption(args[i]):
			option := w.option(args[i])
			if i++; i == len(args) {
				w.Reject("missing value", option.Name)
			}
			w.set(option, args[i])
		case row < len(w.Args):
			w.set(&w.Args[row], args[i])
			row = w.nextPositional(row + 1)
		default:
			w.Reject("unexpected argument", args[i])
		}
	}
	if row < len(w.Args) && !w.Args[row].Optional {
		w.Reject("missing argument", w.Args[row].Name)
	}
}
