// Package request holds one request and the parsers that make one from a line of an access log or an event.
package request
