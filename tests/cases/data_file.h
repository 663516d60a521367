/* data_file.h - files that no clone has: published graphs, models, what PyTorch says of them, in the folder $DATA
 * (docs/internals/data.md). */
#pragma once

/* The path of such a file or folder, "models/unet.onnx", in a block that the next call writes anew. NULL, and a line that says
 * why, where $DATA names no folder or it is not in there: the test is to be skipped. */
const char *data_file(const char *name, ...) __attribute__((format(printf, 1, 2)));
