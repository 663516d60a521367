/* cmd_devices.c - lists the device profiles. */
#include <stdio.h>

#include "cli/messages/print.h"
#include "cli/options/commands.h"
#include "cli/reports/report.h"
#include "estimator/training/target.h"
#include "formats/json/json.h"

static json_t *devices_json(void)
{
    json_t *list = json_array();
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        mp_json_append(&list,
                       json_pack("{s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f}", "name", d->name, "title", d->title,
                                 "memory_bytes", (json_int_t)d->memory_bytes, "reserve_bytes", (json_int_t)d->reserve_bytes,
                                 "cache_bytes", (json_int_t)d->cache_bytes, "fp32_flops", d->fp32_flops, "tf32_flops",
                                 d->tf32_flops, "fp16_flops", d->fp16_flops, "bf16_flops", d->bf16_flops, "bytes_per_second",
                                 d->bytes_per_second, "launch_seconds", d->launch_seconds));
    }
    return json_pack("{s:o}", "devices", list);
}

int cmd_devices(options *o)
{
    if (o->talk.json) return print_json("devices", devices_json());
    print("%-8s %4s %5s %5s %6s %6s %6s %5s  %s\n", "device", "GiB", "less", "fp32", "tf32", "fp16", "bf16", "GB/s",
          "what it is");
    for (size_t k = 0; k < mp_device_count(); k++) {
        const mp_device *d = mp_device_row(k);
        print("%-8s %4.0f %5.2f %5.1f %6.1f %6.1f %6.1f %5.0f  %s\n", d->name, (double)d->memory_bytes / (1 << 30),
              (double)d->reserve_bytes / (1 << 30), d->fp32_flops / 1e12, d->tf32_flops / 1e12, d->fp16_flops / 1e12,
              d->bf16_flops / 1e12, d->bytes_per_second / 1e9, d->title);
    }
    puts("\nTFLOP/s of products by type, as data sheets have them; case does not count.\n"
         "less: the reserve, what context, libraries and allocator take (--reserve).\n"
         "A card that is like one of them: --device a100,memory=40GiB,bandwidth=1555\n"
         "(also fp32, tf32, fp16 and bf16 in TFLOP/s, launch in microseconds, reserve),\n"
         "or --device mycard.json, a file that says so (docs/formats.md).\n"
         "cpu stands in for whatever runs memplan: times are those of eight such cores,\n"
         "until 'memplan profile' has measured the machine at hand.");
    return EXIT_DONE;
}
