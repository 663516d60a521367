/* input.h - standard input in place of a file: what comes through a pipe is kept, so that it can be read more than once. */
#pragma once

/* Makes a regular file of standard input, unless it is one. Returns EXIT_DONE, or EXIT_NO with a complaint if it cannot be
 * kept. */
int input_keep(void);
/* Returns what the kept input looks like: 'o' ONNX (or what is none of these), 'j' JSON, 'd' DOT. */
char input_kind(void);
