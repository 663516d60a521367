/* link_of_device.h - how fast copies between a device and pinned memory of the host are. */
#pragma once

#include "executor/kernel/backend.h"
#include "executor/tiers/link_speed.h"

/* Measures copies of an open device. The backend has side streams, pins memory, and runs nothing else. MP_NOMEM: 384 MiB there
 * or 128 MiB of pinned memory cannot be had. MP_IO: the device has failed. */
mp_status mp_link_measure_device(const mp_backend *backend, mp_link_speed *out, mp_error *err);
