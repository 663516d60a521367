/* cmd_devices.c - lists the device profiles. */
#include <stdio.h>

#include "cli/messages/quantities.h"
#include "cli/options/commands.h"
#include "estimator/training/target.h"

int cmd_devices(options *o)
{
    char memory[QUANTITY_MAX];
    (void)o;
    printf("%-8s  %10s  %8s  %8s  %8s  %8s  %8s  %s\n", "device", "memory", "fp32", "tf32", "fp16", "bf16", "GB/s",
           "what it is (TFLOP/s by type)");
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        printf("%-8s  %10s  %8.1f  %8.1f  %8.1f  %8.1f  %8.0f  %s\n", d->name, bytes_short(d->memory_bytes, memory),
               d->fp32_flops / 1e12, d->tf32_flops / 1e12, d->fp16_flops / 1e12, d->bf16_flops / 1e12,
               d->bytes_per_second / 1e9, d->title);
    }
    return EXIT_DONE;
}
