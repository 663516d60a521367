/* target.c - profiles of devices and links (devices.def), and seconds from the roofline model. */
#include "estimator/training/target.h"

#include <string.h>

#include "estimator/base/names.h"
#include "estimator/base/quantities.h"
#include "estimator/training/achieved.h"

#define DEVICE(name, title, fp32, tf32, fp16, bf16, bandwidth, launch, memory, reserve, cache, alignment, multiprocessors, \
               reach, link)                                                                                                \
    {name,                                                                                                                 \
     title,                                                                                                                \
     (fp32)*1e12,                                                                                                          \
     (tf32)*1e12,                                                                                                          \
     (fp16)*1e12,                                                                                                          \
     (bf16)*1e12,                                                                                                          \
     (bandwidth)*1e9,                                                                                                      \
     (launch)*1e-6,                                                                                                        \
     (memory) * (1LL << 30),                                                                                               \
     (int64_t)((reserve) * (1LL << 30)),                                                                                   \
     (cache) * (1LL << 20),                                                                                                \
     alignment,                                                                                                            \
     link,                                                                                                                 \
     multiprocessors,                                                                                                      \
     reach,                                                                                                                \
     MP_RATES_PEAK},
#define LINK(name, title, out, in, latency, shared)
static const mp_device devices[] = {
#include "estimator/training/devices.def"
};
#undef DEVICE
#undef LINK

#define DEVICE(...)
#define LINK(name, title, out, in, latency, shared) {name, title, (out)*1e9, (in)*1e9, (latency)*1e-6, shared},
static const mp_link links[] = {
#include "estimator/training/devices.def"
};
#undef DEVICE
#undef LINK

static const char *const rates_names[] = {[MP_RATES_PEAK] = "peak", [MP_RATES_ACHIEVED] = "achieved"};

const char *mp_rates_name(mp_rates rates)
{
    return rates_names[rates];
}

mp_rates mp_rates_of(const char *name)
{
    int k = 0;
    while (k < MP_N_RATES_KINDS && strcmp(rates_names[k], name) != 0) k++;
    return (mp_rates)k;
}

size_t mp_device_count(void)
{
    return sizeof devices / sizeof devices[0];
}

const mp_device *mp_device_row(size_t k)
{
    return k < mp_device_count() ? &devices[k] : NULL;
}

const mp_device *mp_device_find(const char *name)
{
    for (size_t k = 0; k < mp_device_count(); k++)
        if (mp_names_are_alike(devices[k].name, name)) return &devices[k];
    return NULL;
}

bool mp_card_has_name(const char *card, const char *device)
{
    const size_t length = strlen(device);
    char name[256] = "";
    bool begins[256] = {false}; /* true if a word of the card's name begins at position i */
    size_t n = 0;
    for (const char *at = card; *at && n + 1 < sizeof name; at++)
        if (*at != ' ')
            name[n++] = *at >= 'A' && *at <= 'Z' ? (char)(*at - 'A' + 'a') : *at;
        else
            begins[n] = true;
    for (const char *at = name; (at = strstr(at, device)); at++) {
        const bool is_digit = at[length] >= '0' && at[length] <= '9';
        /* a number that continues after the match is another card: "A4000" does not match a40; "H100 80GB" matches h100 */
        if (!is_digit || begins[at - name + (ptrdiff_t)length]) return true;
    }
    return false;
}

const mp_device *mp_device_of_card(const char *card)
{
    const mp_device *found = NULL;
    for (size_t k = 0; k < mp_device_count(); k++)
        if (mp_card_has_name(card, devices[k].name) && (!found || strlen(devices[k].name) > strlen(found->name)))
            found = &devices[k];
    return found;
}

size_t mp_link_count(void)
{
    return sizeof links / sizeof links[0];
}

const mp_link *mp_link_row(size_t k)
{
    return k < mp_link_count() ? &links[k] : NULL;
}

const mp_link *mp_link_find(const char *name)
{
    for (size_t k = 0; k < mp_link_count(); k++)
        if (mp_names_are_alike(links[k].name, name)) return &links[k];
    return NULL;
}

/* Parses a rate such as "24GB/s" into bytes/s. The text has `n` bytes. */
static bool read_rate(const char *text, size_t n, double *rate)
{
    enum { RATE_MAX = 40 };
    char amount[RATE_MAX];
    const char *why;
    int64_t bytes;
    bool bare;
    if (n < 3 || n >= sizeof amount || strncmp(text + n - 2, "/s", 2) != 0) return false;
    memcpy(amount, text, n - 2);
    amount[n - 2] = '\0';
    if (!mp_bytes_parse(amount, &bytes, &bare, &why) || bytes <= 0) return false;
    *rate = (double)bytes;
    return true;
}

static bool read_rates(const char *text, mp_link *link)
{
    const size_t n = strcspn(text, ",");
    if (!read_rate(text, n, &link->out_bytes_per_second)) return false;
    link->in_bytes_per_second = link->out_bytes_per_second;
    if (!text[n]) return true;
    const char *in = text + n + 1, *latency = in + strcspn(in, ","), *end;
    double microseconds;
    int64_t exact;
    if (!*latency || !read_rate(in, (size_t)(latency - in), &link->in_bytes_per_second) ||
        !mp_number_parse(latency + 1, &end, &microseconds, &exact))
        return false;
    link->latency_seconds = microseconds / 1e6;
    link->is_shared = !strcmp(end, "us,turns");
    return link->latency_seconds < 1e6 && (link->is_shared || !strcmp(end, "us"));
}

bool mp_link_parse(const char *text, const mp_link *usual, mp_link *out)
{
    const mp_device *device = mp_device_find(text);
    const mp_link *named = mp_link_find(text);
    mp_link rates = usual ? *usual : links[0];
    if (!named && !device) device = mp_device_of_card(text);
    if (device && device->link) named = mp_link_find(device->link);
    if (!named && !read_rates(text, &rates)) return false;
    *out = named ? *named : rates;
    return true;
}

mp_link mp_link_beyond(const mp_link *near, const mp_link *far)
{
    mp_link both = *far;
    if (near->out_bytes_per_second < both.out_bytes_per_second) both.out_bytes_per_second = near->out_bytes_per_second;
    if (near->in_bytes_per_second < both.in_bytes_per_second) both.in_bytes_per_second = near->in_bytes_per_second;
    both.latency_seconds += near->latency_seconds;
    both.is_shared |= near->is_shared;
    return both;
}

mp_device mp_device_at_tf32(const mp_device *device)
{
    mp_device own = *device;
    own.fp32_flops = own.tf32_flops;
    return own;
}

/* Returns max(compute, memory) + launch. This is the roofline model (Williams et al. 2009) with a fixed time per node. */
double mp_roofline_seconds(const mp_device *device, const mp_work *work)
{
    double peak = work->dtype == MP_DTYPE_FLOAT16    ? device->fp16_flops
                  : work->dtype == MP_DTYPE_BFLOAT16 ? device->bf16_flops
                                                     : device->fp32_flops;
    double compute = work->flops / peak, memory = (double)work->moved_bytes / device->bytes_per_second;
    return (compute > memory ? compute : memory) + device->launch_seconds;
}

bool mp_has_achieved_rates(const mp_device *device)
{
    return device->rates == MP_RATES_ACHIEVED && device->multiprocessors;
}

double mp_node_seconds(const mp_device *device, const mp_work *work)
{
    if (!mp_has_achieved_rates(device)) return mp_roofline_seconds(device, work);
    const mp_rate_kernel kernel = mp_kernel_of_work(work);
    return mp_kernel_seconds(device, &kernel);
}

static mp_status roofline_cost(const mp_target *target, const mp_work *work, mp_cost *cost, mp_error *err)
{
    (void)err;
    *cost = (mp_cost){.seconds = mp_node_seconds(target->details, work)};
    return MP_OK;
}

mp_target mp_roofline(const mp_device *device)
{
    return (mp_target){.name = device->name,
                       .alignment = device->alignment,
                       .memory_bytes = device->memory_bytes,
                       .cost = roofline_cost,
                       .details = (void *)device};
}
