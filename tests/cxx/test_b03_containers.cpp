/* tests/cxx/test_b03_containers.cpp -- B03: what containers hold is alive if the container has the right allocator, and dead if
 * nothing but malloc's memory refers to it; destroying containers never aborts. (Reports: gclist 2003-05, 2463; bdwgc/bdwgc #26.)
 */
#include "tests/load/check.h"

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <teaspan/allocator.hpp>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

enum { NOBJECTS = 1000, NROUNDS = 10000 };

template <class T>
using tea_vector = std::vector<T, tea::allocator<T>>;
template <class T>
using tea_root_vector = std::vector<T, tea::root_allocator<T>>;
using tea_string = std::basic_string<char, std::char_traits<char>, tea::allocator<char>>;

/* The hidden addresses of what a container holds are in memory that is not scanned. */
struct Hidden {
    std::vector<uintptr_t> addresses;

    unsigned count_alive() const
    {
        unsigned nalive = 0;
        for (uintptr_t hidden : addresses)
            nalive += is_alive(hidden);
        return nalive;
    }
};

void churn()
{
    for (unsigned i = 0; i < 100000; i++)
        REQUIRE(tea_alloc(64) != nullptr);
}

template <class Vector>
__attribute__((noinline)) void fill(Vector &vector, Hidden &hidden)
{
    for (unsigned i = 0; i < NOBJECTS; i++) {
        void *object;
        hidden.addresses.push_back(put_object(&object));
        vector.push_back(object);
    }
}

void a_container_on_the_stack_keeps_what_it_holds()
{
    tea_vector<void *> vector;
    Hidden hidden;
    fill(vector, hidden);
    collect();
    churn();
    REQUIRE(hidden.count_alive() == NOBJECTS);
    vector.clear();
    vector.shrink_to_fit();
    collect();
    REQUIRE(hidden.count_alive() < 10);
}

tea_vector<void *> static_vector;

void a_static_container_keeps_what_it_holds()
{
    Hidden hidden;
    fill(static_vector, hidden);
    collect();
    churn();
    REQUIRE(hidden.count_alive() == NOBJECTS);
}

struct InHeap {
    tea_vector<void *> vector;
    std::map<int, void *, std::less<int>, tea::allocator<std::pair<const int, void *>>> map;
    tea_string name;
};

void a_container_in_the_heap_keeps_what_it_holds()
{
    InHeap *object = tea::make<InHeap>();
    Hidden hidden, in_map;
    object->name = "a name that is longer than what fits into the string itself";
    fill(object->vector, hidden);
    for (int i = 0; i < NOBJECTS; i++)
        in_map.addresses.push_back(put_object(&object->map[i]));
    collect();
    churn();
    REQUIRE(hidden.count_alive() == NOBJECTS);
    REQUIRE(in_map.count_alive() == NOBJECTS);
    REQUIRE(object->map.size() == NOBJECTS);
    REQUIRE(object->name == "a name that is longer than what fits into the string itself");
}

void a_container_in_mallocs_memory_needs_the_root_allocator()
{
    auto with_roots = std::make_unique<tea_root_vector<void *>>();
    auto without = std::make_unique<std::vector<void *>>();
    Hidden kept, lost;
    fill(*with_roots, kept);
    fill(*without, lost);
    collect();
    churn();
    REQUIRE(kept.count_alive() == NOBJECTS);
    REQUIRE(lost.count_alive() < 10); /* some may be found in what calls have left behind */
    with_roots.reset();
    collect();
    REQUIRE(kept.count_alive() < 10);
}

void a_reference_in_mallocs_memory_alone_keeps_nothing_alive()
{
    void **in_malloc = static_cast<void **>(malloc(sizeof(void *)));
    void **uncollectable = static_cast<void **>(tea_alloc_uncollectable(sizeof(void *)));
    REQUIRE(in_malloc != nullptr && uncollectable != nullptr);
    uintptr_t lost = put_object(in_malloc), kept = put_object(uncollectable);
    uintptr_t block = hide(uncollectable);
    uncollectable = nullptr;
    churn();
    collect();
    churn();
    REQUIRE(!is_alive(lost));
    REQUIRE(is_alive(kept));
    tea_free(reinterpret_cast<void *>(~block));
    free(in_malloc);
}

void grow_and_clear(unsigned nrounds)
{
    tea_vector<void *> vector;
    std::list<void *, tea::allocator<void *>> list;
    std::unordered_map<int, void *, std::hash<int>, std::equal_to<int>, tea::allocator<std::pair<const int, void *>>> map;
    for (unsigned round = 0; round < nrounds; round++) {
        for (int i = 0; i < 50; i++) {
            uintptr_t *object = static_cast<uintptr_t *>(tea_alloc(32));
            *object = hide(object);
            vector.push_back(object);
            list.push_back(object);
            map[i] = object;
        }
        for (void *object : vector)
            REQUIRE(*static_cast<uintptr_t *>(object) == hide(object));
        for (void *object : list)
            REQUIRE(*static_cast<uintptr_t *>(object) == hide(object));
        for (auto &entry : map)
            REQUIRE(*static_cast<uintptr_t *>(entry.second) == hide(entry.second));
        vector = {};
        list.clear();
        map.clear();
    }
}

void containers_grow_and_shrink_while_another_thread_collects()
{
    std::atomic<bool> may_end{false};
    std::thread collector([&] {
        while (!may_end)
            tea_collect();
    });
    grow_and_clear(NROUNDS / 10);
    may_end = true;
    collector.join();
    grow_and_clear(NROUNDS);
}

struct alignas(64) Aligned {
    void *reference;
};

void allocators_meet_their_requirements()
{
    tea_vector<Aligned> aligned(3);
    REQUIRE(reinterpret_cast<uintptr_t>(aligned.data()) % 64 == 0);
    bool refused = false;
    try {
        tea::allocator<long>().allocate(SIZE_MAX / 4);
    } catch (const std::bad_alloc &) {
        refused = true;
    }
    REQUIRE(refused);
    tea_vector<int> some = {1, 2, 3}, others = std::move(some);
    REQUIRE(others.size() == 3 && some.empty());
    REQUIRE(tea::allocator<int>() == tea::allocator<long>());
    REQUIRE(!(tea::root_allocator<int>() != tea::root_allocator<long>()));
}

struct Throws {
    Throws()
    {
        throw 7;
    }
    int value = 0;
};

void make_passes_on_what_the_constructor_throws()
{
    int thrown = 0;
    try {
        tea::make<Throws>();
    } catch (int value) {
        thrown = value;
    }
    REQUIRE(thrown == 7);
}

} // namespace

int main()
{
    a_container_on_the_stack_keeps_what_it_holds();
    a_static_container_keeps_what_it_holds();
    a_container_in_the_heap_keeps_what_it_holds();
    a_container_in_mallocs_memory_needs_the_root_allocator();
    a_reference_in_mallocs_memory_alone_keeps_nothing_alive();
    containers_grow_and_shrink_while_another_thread_collects();
    allocators_meet_their_requirements();
    make_passes_on_what_the_constructor_throws();
    return 0;
}
