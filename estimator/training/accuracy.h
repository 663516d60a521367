/* accuracy.h - the accuracy of seconds at achieved rates, for the group of networks to which a training step belongs. Private
 * to the library. */
#pragma once

#include <stddef.h>

#include "estimator/training/achieved.h"

/* The seconds of the kernels of a step, per row of rates.def. */
typedef struct mp_spending {
    double seconds[MP_N_TIMED];
} mp_spending;

/* A device whose target also adds up the seconds of each family. */
typedef struct mp_counted_device {
    const mp_device *device;
    mp_spending spending;
} mp_counted_device;

/* Returns mp_node_seconds of the device, and adds the seconds to the node's family. At peak rates nothing is added. */
double mp_counted_seconds(mp_counted_device *counted, const mp_work *work);
/* Returns a target like mp_roofline(device). *counted must outlive the target. */
mp_target mp_counted_target(mp_counted_device *counted);

/* The text needs this number of bytes. */
enum { MP_ACCURACY_TEXT = 256 };
/* Writes a sentence about the accuracy of a step's seconds, without a full stop. The kind of arithmetic that takes most of the
 * time and the number of devices determine the group of published networks. `spending`: the seconds of one device. False: no
 * published step resembles the network; the sentence then begins with "warning: " and states the reason. */
bool mp_accuracy_tell(const mp_spending *spending, int64_t n_devices, char text[MP_ACCURACY_TEXT]);
