/* data_file.h - files in the folder $DATA that no clone contains: published graphs, models, and PyTorch's measurements of them
 * (docs/internals/data.md). */
#pragma once

/* Returns the path of a file or folder such as "models/unet.onnx"; the next call overwrites it. Returns NULL and prints the
 * reason if $DATA is unset or lacks the file: the test must be skipped. */
const char *data_file(const char *name, ...) __attribute__((format(printf, 1, 2)));
