/* input.h - makes standard input readable like a file: bytes from a pipe are stored, so that they can be read more than
 * once. */
#pragma once

/* Replaces standard input by a regular file with the same bytes, unless it is one already. Returns EXIT_DONE; EXIT_NO with an
 * error message if the bytes cannot be stored. */
int input_keep(void);
/* Returns the format of standard input, which its first bytes show: 'j' for JSON, 'd' for DOT, otherwise 'o' (ONNX). */
char input_kind(void);
