// with_heap.cpp - a C++ program with exceptions and threads beside a heap of Strata's: its own new
// and delete must stay the program's.
#include <strata/heap.h>
#include <strata/model.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

int main()
{
    strata_error error;
    strata_process *process = nullptr;
    strata_model *model = nullptr;
    strata_heap *heap = nullptr;
    strata_heap_config config;
    strata_heap_config_init(&config);
    config.region.label = "run";
    if (strata_process_create(&process, nullptr, &error) != STRATA_OK ||
        strata_model_open(&model, process, nullptr, &error) != STRATA_OK ||
        strata_heap_create(&heap, strata_model_root(model), &config, &error) != STRATA_OK) {
        std::fprintf(stderr, "%s\n", error.text);
        return 1;
    }
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) {
        threads.emplace_back([heap] {
            for (std::size_t i = 0; i < 5000; i++) {
                std::string own(i % 300, 'x');
                void *block = strata_heap_alloc(heap, i % 3000, 16, nullptr);
                std::memset(block, 1, i % 3000);
                if (strata_heap_owns(heap, own.data()) ||
                    strata_heap_free(heap, block) != STRATA_OK) {
                    std::abort();
                }
            }
        });
    }
    for (auto &thread : threads) {
        thread.join();
    }
    try {
        throw std::runtime_error("still C++");
    } catch (const std::exception &caught) {
        std::puts(caught.what());
    }
    return strata_model_release(model, nullptr, nullptr) == STRATA_OK &&
                   strata_model_destroy(&model) == STRATA_OK &&
                   strata_process_destroy(&process) == STRATA_OK
               ? 0
               : 1;
}
