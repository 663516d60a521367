/* backend_case.c - opens backends by name, including test-only modules. */
#include "tests/cases/backend_case.h"

#include <unistd.h>

#include "executor/backend.h"
#include "tests/cases/test.h"

/* Module files are next to the program; test programs are one folder deeper. */
static void say_where_modules_are(void)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0 || getenv("MEMPLAN_MODULES")) return;
    path[n] = 0;
    for (int up = 0; up < 2 && strrchr(path, '/'); up++) *strrchr(path, '/') = 0;
    setenv("MEMPLAN_MODULES", path, 0);
}

mp_backend *backend_twin(mp_error *err)
{
    mp_backend *twin = NULL;
    say_where_modules_are();
    return mp_module_load("cuda_twin", 0, &twin, err) == MP_OK ? twin : NULL;
}

const mp_backend *backend_named(const char *name, mp_error *err)
{
    const mp_backend *backend = NULL;
    say_where_modules_are();
    if (!strcmp(name, "cuda_twin"))
        backend = backend_twin(err);
    else if (mp_backend_open(name, &backend, err) != MP_OK)
        return NULL;
    if (!backend) return NULL;
    return backend->open(backend, err) == MP_OK ? backend : NULL;
}

const mp_backend *backend_of_tests(void)
{
    static const mp_backend *backend;
    const char *name = getenv("MEMPLAN_TEST_BACKEND");
    mp_error err = {0};
    if (!backend) backend = backend_named(name ? name : "cpu", &err);
    if (!backend) fail_msg("%s: %s", name, err.message);
    return backend;
}

static mp_array bytes_at(void *data, int64_t bytes)
{
    mp_array a = mp_array_plain(MP_DTYPE_UINT8, 1, &bytes);
    a.data = data;
    return a;
}

void *backend_bring(const mp_backend *backend, void *host, int64_t bytes)
{
    if (backend->is_host) return host;
    mp_error err = {0};
    mp_array from = bytes_at(host, bytes), to = bytes_at(backend->allocate(backend, bytes), bytes);
    assert_non_null(to.data);
    if (backend->upload(backend, &from, &to, &err) != MP_OK) fail_msg("%s", err.message);
    return to.data;
}

void backend_fetch(const mp_backend *backend, void *there, void *host, int64_t bytes)
{
    if (backend->is_host) return;
    mp_error err = {0};
    mp_array from = bytes_at(there, bytes), to = bytes_at(host, bytes);
    if (backend->download(backend, &from, &to, &err) != MP_OK) fail_msg("%s", err.message);
    backend->release(backend, there, bytes);
}
