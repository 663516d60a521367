/* test_devices.c - devices are found by the common names of cards and by the names that drivers report. */
#include "estimator/training/training.h"
#include "tests/cases/test.h"

TEST(devices_are_found_as_people_and_drivers_call_them)
{
    static const struct {
        const char *written, *name;
    } people[] = {{"A100", "a100"}, {"RTX 3090", "rtx3090"}, {"rtx-4090", "rtx4090"}, {"L40s", "l40s"}, {"MI300X", "mi300x"}},
      drivers[] = {{"NVIDIA A100-SXM4-80GB", "a100"}, {"NVIDIA A10", "a10"},   {"NVIDIA L4", "l4"},
                   {"NVIDIA L40S", "l40s"},           {"NVIDIA L40", "l40"},   {"NVIDIA GeForce RTX 4090", "rtx4090"},
                   {"NVIDIA RTX A6000", "a6000"},     {"Tesla T4", "t4"},      {"NVIDIA RTX A4000", NULL},
                   {"NVIDIA T400 4GB", NULL},         {"NVIDIA H200", "h200"}, {"NVIDIA H100 80GB HBM3", "h100"}};
    for (size_t k = 0; k < sizeof people / sizeof *people; k++)
        assert_string_equal(mp_device_find(people[k].written)->name, people[k].name);
    for (size_t k = 0; k < sizeof drivers / sizeof *drivers; k++) {
        const mp_device *found = mp_device_of_card(drivers[k].written);
        if (drivers[k].name)
            assert_string_equal(found->name, drivers[k].name);
        else
            assert_null(found);
    }
    assert_null(mp_device_find("a1000"));
    assert_null(mp_device_find("a"));
}
