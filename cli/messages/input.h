/* input.h - standard input in place of a file: bytes from a pipe are stored, so that they can be read more than once. */
#pragma once

/* Makes standard input a regular file, unless it is one. Returns EXIT_DONE, or EXIT_NO with a complaint if it cannot be
 * stored. */
int input_keep(void);
/* Returns the format of standard input by its first bytes: 'j' JSON, 'd' DOT, else 'o' (ONNX). */
char input_kind(void);
