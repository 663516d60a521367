/* module_name.h - the modules in names of operators and tensors. Example: "/layer1/layer1.0/conv1/Conv" is the Conv of module
 * layer1.0.conv1, at depth three. The last component is the operator or tensor itself. A leading slash is ignored. All
 * functions are O(length of the name). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Returns the number of nested modules in a name. */
int mp_module_depth(const char *name);
/* Returns the length of the prefix that contains the first `depth` modules of a name, without the slash at its end. If the
 * name has fewer modules, the prefix contains all of them. */
size_t mp_module_length(const char *name, int depth);
/* Writes the usual name of the module that name[0..length) denotes: "layer1.0.conv1" for "layer1/layer1.0/conv1". If a
 * component begins with the previous component, it replaces the previous one. Truncated to `size` bytes at a character
 * boundary. Returns text. */
char *mp_module_text(const char *name, size_t length, char *text, size_t size);
/* Returns the part of the name after its modules: "Conv". */
const char *mp_module_leaf(const char *name);
/* True if the number in the module name b[0..m) is one larger than the number in a[0..n): "h.4" after "h.3", "layer2.1" after
 * "layer2.0". */
bool mp_module_is_next(const char *a, size_t n, const char *b, size_t m);
