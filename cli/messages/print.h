/* print.h - printf for people. Texts for %s often have their origin in files. Characters that would control a terminal, line
 * breaks included, are shown as escapes (visible_text.h). The format itself is not changed. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

/* As printf and fprintf: return the number of bytes written. */
int print(const char *format, ...) __attribute__((format(printf, 1, 2)));
int print_to(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As vsnprintf; longer text is truncated. */
void print_text(char *text, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
