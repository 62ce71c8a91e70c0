package rule

import (
	"reflect"

	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser/lexer"
)

// The library stops at the first mistake. So the conditions between and and or are compiled one by one to find all.

// Conditions are compiled one by one up to so many brackets deep, and while fewer mistakes are known, which bounds the
// time that a hostile file takes.
const (
	maxNested   = 8
	maxMistakes = 16
)

// mistakes are all mistakes of a condition; first is what is known of the complete one, and the result where its parts
// have none.
func mistakes(text string, first []complaint, nested int) (all []complaint) {
	if len(first) > maxMistakes {
		return first
	}
	for _, piece := range pieces(text) {
		_, found := compileAll(piece.text, reflect.Bool)
		if found != nil && nested > 0 {
			found = mistakes(piece.text, found, nested-1)
		}
		for _, c := range found {
			if c.line == 1 {
				c.column += piece.column - 1
			}
			c.line += piece.line - 1
			all = append(all, c)
		}
	}
	if all == nil {
		return first
	}
	return all
}

// A piece is a condition within another one, and where it begins.
type piece struct {
	text         string
	line, column int
}

// pieces are the conditions that and and or combine, or the one in brackets or behind not. There are none where a
// condition cannot be cut: at a choice, a variable or brackets that do not match.
func pieces(text string) (all []piece) {
	tokens, err := lexer.Lex(file.NewSource(text))
	if err != nil {
		return nil
	}
	tokens = tokens[:len(tokens)-1] // without the end

	runes := []rune(text)
	from, depth, closed := 0, 0, 0 // closed counts how often all brackets are closed
	for i, t := range tokens {
		switch {
		case t.Is(lexer.Bracket, "(", "[", "{"):
			depth++
		case t.Is(lexer.Bracket):
			if depth--; depth == 0 {
				closed++
			}
		case t.Is(lexer.Operator, "let", ";"), depth == 0 && t.Is(lexer.Operator, "?", "?:", "??", ":", "|"):
			return nil
		case depth == 0 && t.Is(lexer.Operator, "and", "or", "&&", "||"):
			all = append(all, pieceOf(runes, tokens[from:i]))
			from = i + 1
		}
		if depth < 0 {
			return nil
		}
	}

	last := len(tokens) - 1
	switch {
	case depth != 0 || last < 1:
		return nil
	case from > last:
		return append(all, piece{"", 1, len(runes) + 1}) // it is missing
	case all != nil:
		return append(all, pieceOf(runes, tokens[from:]))
	case tokens[0].Is(lexer.Operator, "not", "!"):
		return []piece{pieceOf(runes, tokens[1:])}
	case tokens[0].Is(lexer.Bracket, "(") && tokens[last].Is(lexer.Bracket, ")") && closed == 1:
		return []piece{pieceOf(runes, tokens[1:last])}
	}
	return nil
}

// pieceOf is the text of some tokens. That there are none, as between two ands, is a mistake of the complete condition.
func pieceOf(runes []rune, tokens []lexer.Token) piece {
	if len(tokens) == 0 {
		return piece{"true", 1, 1}
	}
	p := piece{string(runes[tokens[0].From:tokens[len(tokens)-1].To]), 1, 1}
	for _, r := range runes[:tokens[0].From] {
		p.column++
		if r == '\n' {
			p.line, p.column = p.line+1, 1
		}
	}
	return p
}
