/* own_device.h - a card that is not in the table of devices: one that is, and what differs, as --device takes it.
 *
 *     a100,memory=40GiB          bandwidth in GB/s, fp32, tf32, fp16 and bf16 in TFLOP/s, launch in microseconds
 *     t4,memory=15GiB,fp16=60,bandwidth=280
 */
#ifndef CLI_OWN_DEVICE_H
#define CLI_OWN_DEVICE_H

#include <stdbool.h>

#include "memplan/target.h"

enum { DEVICE_TITLE_MAX = 128 };

typedef struct own_device {
    mp_device profile; /* its name is the text that was read, its title the one below */
    char title[DEVICE_TITLE_MAX];
} own_device;

/* The profile that a name or such a text means; it points into *out and `text`. False: there is none, or a part is wrong. */
bool device_read(const char *text, own_device *out);
/* Whether a text is a device with changes. */
bool device_is_own(const char *text);

#endif
