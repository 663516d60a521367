/* print.h - printf for what people read. Texts that go in through %s are names as often as not, and names come from files: what
 * would steer a terminal is shown as an escape (visible_text.h), line breaks too. The format itself is ours and stays. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

/* As printf and fprintf: return how many bytes were written. */
int print(const char *format, ...) __attribute__((format(printf, 1, 2)));
int print_to(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As vsnprintf; what does not fit is cut. */
void print_text(char *text, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
