/* link_of_device.h - measures the speed of copies between a device and pinned host memory. */
#pragma once

#include "executor/kernel/backend.h"
#include "executor/tiers/link_speed.h"

/* Measures copies of an open device. The backend must have side streams and pinned memory, and nothing else may run on the
 * device. MP_NOMEM: 384 MiB of device memory or 128 MiB of pinned memory are not available. MP_IO: the device has failed. */
mp_status mp_link_measure_device(const mp_backend *backend, mp_link_speed *out, mp_error *err);
