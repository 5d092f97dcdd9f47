/* include/teaspan/allocator.hpp -- C++: containers in the collector's heap, objects without delete, references from anywhere.
 *
 * tea::allocator<T>       for containers that the collector can see: on a stack, in static or thread-local memory, in objects of
 *                         the heap. What they hold is kept alive through them.
 * tea::root_allocator<T>  for containers anywhere, in memory from malloc() or new too: what they hold is kept alive until the
 *                         container is destroyed.
 * tea::make<T>(...)       a T in the heap; its destructor is never run.
 * tea::root<T>            a reference that keeps its object alive wherever it is stored: in memory from malloc(), in exceptions.
 *
 * An exception object lies in memory from malloc(). With the shared library the collector scans it as long as it exists, so that
 * `throw` of a reference, or of an object that has one, keeps what it refers to. With the archive it does not: there such
 * an object holds its references as tea::root<T>.
 */
#ifndef TEASPAN_ALLOCATOR_HPP
#define TEASPAN_ALLOCATOR_HPP

#include <atomic>
#include <cstddef>
#include <limits>
#include <new>
#include <type_traits>
#include <utility>

#include <teaspan/alloc.h>

namespace tea {

/* Whether objects of this type hold no references, so that arrays of them need not be scanned. To be specialised. */
template <class T>
struct is_leaf : std::integral_constant<bool, std::is_arithmetic<T>::value || std::is_enum<T>::value> {
};

namespace detail {

constexpr std::size_t default_alignment = 16; /* of tea_alloc(); 8 for 24 bytes, which no type with a larger one has */

template <class T>
std::size_t array_bytes(std::size_t count)
{
    if (count > std::numeric_limits<std::size_t>::max() / sizeof(T))
        throw std::bad_array_new_length();
    return count * sizeof(T);
}

inline void *require_memory(void *object)
{
    if (object == nullptr)
        throw std::bad_alloc();
    return object;
}

} // namespace detail

/* Memory of the collector: freed when a container no longer wants it, or when nothing refers to it. */
template <class T>
class allocator {
public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    allocator() noexcept = default;
    template <class U>
    allocator(const allocator<U> &) noexcept
    {
    }

    T *allocate(std::size_t count)
    {
        std::size_t bytes = detail::array_bytes<T>(count);
        void *array = alignof(T) > detail::default_alignment ? tea_alloc_aligned(alignof(T), bytes)
                      : is_leaf<T>::value                    ? tea_alloc_leaf_uninit(bytes)
                                                             : tea_alloc(bytes);
        return static_cast<T *>(detail::require_memory(array));
    }

    void deallocate(T *array, std::size_t) noexcept
    {
        tea_free(array);
    }
};

template <class T, class U>
bool operator==(const allocator<T> &, const allocator<U> &) noexcept
{
    return true;
}

template <class T, class U>
bool operator!=(const allocator<T> &, const allocator<U> &) noexcept
{
    return false;
}

/* Memory of the collector that stays until it is deallocated, and is scanned as long. */
template <class T>
class root_allocator {
    static_assert(alignof(T) <= detail::default_alignment, "tea::root_allocator: alignments above 16 are not provided");

public:
    using value_type = T;
    using propagate_on_container_move_assignment = std::true_type;
    using is_always_equal = std::true_type;

    root_allocator() noexcept = default;
    template <class U>
    root_allocator(const root_allocator<U> &) noexcept
    {
    }

    T *allocate(std::size_t count)
    {
        return static_cast<T *>(detail::require_memory(tea_alloc_uncollectable(detail::array_bytes<T>(count))));
    }

    void deallocate(T *array, std::size_t) noexcept
    {
        tea_free(array);
    }
};

template <class T, class U>
bool operator==(const root_allocator<T> &, const root_allocator<U> &) noexcept
{
    return true;
}

template <class T, class U>
bool operator!=(const root_allocator<T> &, const root_allocator<U> &) noexcept
{
    return false;
}

/* A new T in the heap. Containers as members take tea::allocator, or their memory is never freed. */
template <class T, class... Arguments>
T *make(Arguments &&...arguments)
{
    T *object = allocator<T>().allocate(1);
    try {
        return ::new (static_cast<void *>(object)) T(std::forward<Arguments>(arguments)...);
    } catch (...) {
        tea_free(object);
        throw;
    }
}

/* A reference that is a root itself. Copies share one cell and throw nothing, as copies of exceptions must. */
template <class T>
class root {
public:
    root() noexcept = default;
    explicit root(T *object)
        : shared(::new (detail::require_memory(tea_alloc_uncollectable(sizeof(cell)))) cell(object))
    {
    }
    root(const root &other) noexcept : shared(other.shared)
    {
        if (shared != nullptr)
            shared->count.fetch_add(1, std::memory_order_relaxed);
    }
    root(root &&other) noexcept : shared(std::exchange(other.shared, nullptr))
    {
    }
    root &operator=(root other) noexcept
    {
        std::swap(shared, other.shared);
        return *this;
    }
    ~root()
    {
        /* acq_rel: the last one to let go frees what the others have used. */
        if (shared != nullptr && shared->count.fetch_sub(1, std::memory_order_acq_rel) == 1)
            tea_free(shared);
    }

    T *get() const noexcept
    {
        return shared != nullptr ? shared->object : nullptr;
    }
    T &operator*() const noexcept
    {
        return *get();
    }
    T *operator->() const noexcept
    {
        return get();
    }
    explicit operator bool() const noexcept
    {
        return get() != nullptr;
    }

private:
    struct cell {
        explicit cell(T *held) : object(held), count(1)
        {
        }
        T *object;
        std::atomic<std::size_t> count;
    };
    cell *shared = nullptr;
};

} // namespace tea

#endif
