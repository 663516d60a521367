/* own_device.h - devices that are not in the table of device profiles. --device describes such a device by a device of the
 * table and changes to it:
 *
 * a100,memory=40GiB
 * t4,memory=15GiB,fp16=60,bandwidth=280,reserve=1GiB,name=ours
 *
 * Units: bandwidth in GB/s; fp32, tf32, fp16 and bf16 in TFLOP/s; launch in microseconds. The same values may be in a device
 * file (docs/reference/formats.md). A device file is converted to the text form above, which plans and graphs store. */
#pragma once

#include <stdbool.h>

#include "memplan/backend.h"
#include "memplan/error.h"
#include "memplan/target.h"
#include "memplan/workload.h"

enum { MP_DEVICE_TITLE_MAX = 128, MP_DEVICE_NAME_MAX = 32 };

typedef struct mp_own_device {
    /* profile of the device of the table, with the changes applied; its name is the user's text, and its title points to
     * `title` */
    mp_device profile;
    char title[MP_DEVICE_TITLE_MAX];
    bool has_reserve;              /* true: the text states the reserve */
    char name[MP_DEVICE_NAME_MAX]; /* short name: the value of name=, or the name of the device of the table */
} mp_own_device;

/* Finds the profile of a device, given its name or its text form with changes. The result points into *out and `text`. Returns
 * false if the device does not exist, or if a part of the text is invalid. */
bool mp_own_device_read(const char *text, mp_own_device *out);
/* True if a text describes a device of the table with changes. */
bool mp_own_device_is(const char *text);

/* True if the value of --device is the name of a file. */
bool mp_device_is_file(const char *text);
/* Converts a device file to the text form. Release *text with mp_free. MP_IO, MP_PARSE, with the file, the line and the key. */
mp_status mp_device_file_read(const char *path, char **text, mp_error *err);

/* Finds the backend and the device profile for `device`. *backend is NULL if `device` names no backend that can run; then costs
 * come from the profile. MP_UNSUPPORTED: the backend is missing from this build. */
mp_status mp_workload_device(const mp_workload_options *o, const mp_backend **backend, mp_own_device *device, mp_error *err);
