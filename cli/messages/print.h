/* print.h - printf with safe texts. The texts of %s often come from files. Characters that would control a terminal, line
 * breaks included, are replaced by visible escapes (visible_text.h). The format string is printed unchanged. */
#pragma once

#include <stdarg.h>
#include <stdio.h>

/* Like printf and fprintf: return the number of bytes written. */
int print(const char *format, ...) __attribute__((format(printf, 1, 2)));
int print_to(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like vsnprintf. A text that is too long is truncated. */
void print_text(char *text, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
