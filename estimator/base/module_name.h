/* module_name.h - the modules in the names of operators and tensors: "/layer1/layer1.0/conv1/Conv" is the Conv of
 * module layer1.0.conv1, three levels deep. The last component is the operator or tensor itself. A leading slash makes
 * no difference. All functions are O(length of the name).
 */
#pragma once

#include <stddef.h>

/* Returns how many modules a name is in, one within the other. */
int mp_module_depth(const char *name);
/* Returns the length of the part of a name that has its first `depth` modules, without the slash behind them; of all
 * modules if there are fewer. */
size_t mp_module_length(const char *name, int depth);
/* Writes the usual name of the module behind name[0..length): "layer1.0.conv1". A component that repeats the one before
 * it stands for both. Cut to `size` bytes, between characters. Returns text. */
char *mp_module_text(const char *name, size_t length, char *text, size_t size);
/* Returns the name without the modules: "Conv". */
const char *mp_module_leaf(const char *name);
