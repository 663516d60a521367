/* short_name.h - names of tensors and operators as pictures and pages show them. Private to formats/ and cli/. */
#pragma once

#include <stddef.h>

/* "gradient of /down.2/down.2.3/Relu_output_0" as "gradient of down.2.3.Relu": of each word with a slash the module as people
 * call it (module_name.h), and no "_output_0", the end that exporters give nearly every tensor. Cut to `room` bytes, between
 * characters. Returns text. O(length). */
char *mp_short_name(const char *name, char *text, size_t room);
