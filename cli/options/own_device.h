/* own_device.h - a device that is not in the table, given to --device as a table device with changes:
 *
 *     a100,memory=40GiB            bandwidth in GB/s, fp32, tf32, fp16 and bf16 in TFLOP/s, launch in microseconds
 *     t4,memory=15GiB,fp16=60,bandwidth=280,reserve=1GiB,name=ours
 *
 * A file may contain the same (docs/reference/formats.md). It is converted to this text form, which plans and graphs store.
 */
#pragma once

#include <stdbool.h>

#include "memplan/error.h"
#include "memplan/target.h"

enum { DEVICE_TITLE_MAX = 128, DEVICE_NAME_MAX = 32 };

typedef struct own_device {
    mp_device profile; /* its name is the parsed text, its title is the field below */
    char title[DEVICE_TITLE_MAX];
    char name[DEVICE_NAME_MAX]; /* short name: its own, or the name of the device that it is based on */
} own_device;

/* Finds the profile for a device's name or for a device with changes. The result points into *out and `text`. Returns false if
 * the device does not exist, or if a part of the text is invalid. */
bool device_read(const char *text, own_device *out);
/* True if a text is a device with changes. */
bool device_is_own(const char *text);

/* True if --device names a file. */
bool device_is_file(const char *text);
/* Converts a device file to the text form. Release *text with mp_free. MP_IO, MP_PARSE, with the file, the line and the key. */
mp_status device_file_read(const char *path, char **text, mp_error *err);
