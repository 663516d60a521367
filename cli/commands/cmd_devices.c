/* cmd_devices.c - lists the device profiles. */
#include <stdio.h>

#include "cli/options/commands.h"
#include "estimator/training/target.h"

int cmd_devices(options *o)
{
    (void)o;
    printf("%-8s %4s %5s %5s %6s %6s %6s %5s  %s\n", "device", "GiB", "less", "fp32", "tf32", "fp16", "bf16", "GB/s",
           "what it is");
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        printf("%-8s %4.0f %5.2f %5.1f %6.1f %6.1f %6.1f %5.0f  %s\n", d->name, (double)d->memory_bytes / (1 << 30),
               (double)d->reserve_bytes / (1 << 30), d->fp32_flops / 1e12, d->tf32_flops / 1e12, d->fp16_flops / 1e12,
               d->bf16_flops / 1e12, d->bytes_per_second / 1e9, d->title);
    }
    puts("\nTFLOP/s of products by type, as data sheets have them; case does not count.\n"
         "less: the reserve, what context, libraries and allocator take (--reserve).\n"
         "A card that is like one of them: --device a100,memory=40GiB,bandwidth=1555\n"
         "(also fp32, tf32, fp16 and bf16 in TFLOP/s, launch in microseconds, reserve),\n"
         "or --device mycard.json, a file that says so (docs/formats.md).");
    return EXIT_DONE;
}
