/* input.h - standard input used as a file: bytes from a pipe are stored, so that they can be read more than once. */
#pragma once

/* Makes standard input a regular file, unless it is one. Returns EXIT_DONE; EXIT_NO with an error message if the bytes cannot
 * be stored. */
int input_keep(void);
/* Returns the format of standard input, detected by its first bytes: 'j' JSON, 'd' DOT, otherwise 'o' (ONNX). */
char input_kind(void);
