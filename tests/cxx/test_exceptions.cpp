/* tests/cxx/test_exceptions.cpp -- exceptions in flight keep what they refer to. EXCEPTIONS_ARE_SCANNED: linked with the shared
 * library, which scans exception objects; else they hold tea::root<T>.
 */
#include "tests/load/check.h"

#include <exception>
#include <memory>
#include <stdexcept>
#include <teaspan/allocator.hpp>
#include <thread>

namespace {

/* An object in the heap that is thrown by address, and what it was. */
struct Node {
    uintptr_t hidden;
    Node *next;
};

__attribute__((noinline)) Node *node_new(uintptr_t *hidden_out)
{
    Node *node = tea::make<Node>();
    node->next = tea::make<Node>();
    node->next->hidden = hide(node->next);
    node->hidden = *hidden_out = hide(node);
    return node;
}

void collect_and_churn()
{
    collect();
    for (unsigned i = 0; i < 20000; i++)
        REQUIRE(tea_alloc(sizeof(Node)) != nullptr);
    collect();
}

/* Runs while the stack is being unwound. */
struct CollectsInDestructor {
    ~CollectsInDestructor()
    {
        collect_and_churn();
    }
};

void check(const Node *node, uintptr_t hidden)
{
    REQUIRE(hide(node) == hidden);
    REQUIRE(node->hidden == hidden && is_alive(hidden));
    REQUIRE(node->next->hidden == hide(node->next) && is_alive(node->next->hidden));
}

struct Failure : std::runtime_error {
    tea::root<Node> node;
    Failure(Node *failed) : std::runtime_error("failed"), node(failed)
    {
    }
};

__attribute__((noinline)) void throw_with_root(uintptr_t *hidden_out)
{
    CollectsInDestructor collects;
    throw Failure(node_new(hidden_out));
}

__attribute__((noinline)) void a_root_in_an_exception_keeps_its_object(uintptr_t *hidden_out)
{
    try {
        throw_with_root(hidden_out);
    } catch (const Failure &failure) {
        collect_and_churn();
        check(failure.node.get(), *hidden_out);
        Failure copy = failure;
        check(copy.node.get(), *hidden_out);
    }
}

#if EXCEPTIONS_ARE_SCANNED

__attribute__((noinline)) void throw_address(uintptr_t *hidden_out)
{
    CollectsInDestructor collects;
    throw node_new(hidden_out);
}

__attribute__((noinline)) void a_thrown_address_keeps_its_object(uintptr_t *hidden_out)
{
    try {
        throw_address(hidden_out);
    } catch (Node *&node) { /* by reference: the exception object's own word */
        collect_and_churn();
        check(node, *hidden_out);
        node = nullptr;
    }
}

struct Holder {
    Node *node;
};

__attribute__((noinline)) void an_exception_kept_for_another_thread_keeps_its_object(uintptr_t *hidden_out)
{
    std::exception_ptr kept;
    std::thread thrower([&] {
        try {
            throw Holder{node_new(hidden_out)};
        } catch (...) {
            kept = std::current_exception();
        }
    });
    thrower.join();
    collect_and_churn();
    try {
        std::rethrow_exception(kept);
    } catch (const Holder &holder) {
        check(holder.node, *hidden_out);
    }
}

#endif

/* Once nobody can get at the exception any more its object is garbage. */
void run(void (*test)(uintptr_t *), const char *name)
{
    uintptr_t hidden = 0;
    std::thread([&] { test(&hidden); }).join();
    collect();
    if (is_alive(hidden)) {
        fprintf(stderr, "%s: the object is alive after the exception is gone\n", name);
        exit(1);
    }
}

} // namespace

int main()
{
    run(a_root_in_an_exception_keeps_its_object, "root");
#if EXCEPTIONS_ARE_SCANNED
    run(a_thrown_address_keeps_its_object, "address");
    run(an_exception_kept_for_another_thread_keeps_its_object, "kept");
#endif
    return 0;
}
