/* examples/finalizer.c -- close files when the objects that stand for them are no longer reachable.
 *
 * Three ways to tell that an object is gone: a cleanup, which gets what is to be released and not the object (prefer it); a
 * finalizer, which gets the object; and closing by hand, after which the cleanup is taken back.
 */
#include <stdio.h>
#include <teaspan/teaspan.h>

static unsigned nopened, nclosed;

static int open_number(void)
{
    return (int)++nopened;
}

static void close_number(int number)
{
    (void)number;
    nclosed++;
}

/* What is to be released, apart from the object: the cleanup's argument must not lead back to it. */
struct handle {
    int number;
};

struct stream {
    struct handle *handle;
    char buffer[4000];
    struct tea_cleanup cleanup;
};

static void release_handle(void *argument)
{
    const struct handle *handle = argument;
    close_number(handle->number);
}

static struct stream *stream_open(void)
{
    struct stream *stream = tea_alloc(sizeof *stream);
    struct handle *handle = tea_alloc_leaf(sizeof *handle);
    if (stream == NULL || handle == NULL)
        return NULL;
    handle->number = open_number();
    stream->handle = handle;
    if (tea_add_cleanup(stream, release_handle, handle, &stream->cleanup) != TEA_OK) {
        close_number(handle->number);
        return NULL;
    }
    return stream;
}

static int stream_read(const struct stream *stream)
{
    int number = stream->handle->number;
    /* ... read(2) from it here. Without this the compiler may forget `stream` before, and its number be closed. */
    tea_keep_alive(stream);
    return number;
}

static void stream_close(struct stream *stream)
{
    /* The cleanup has not run, since the object is reachable. */
    if (tea_cleanup_stop(stream->cleanup) == TEA_OK)
        close_number(stream->handle->number);
}

static bool use_streams(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        struct stream *stream = stream_open();
        if (stream == NULL || stream_read(stream) == 0)
            return false;
        if (i % 10 == 0)
            stream_close(stream);
        /* The others are forgotten. */
    }
    return true;
}

/* A finalizer sees the object, and may do anything with it: here it goes back to a pool. */
struct session {
    struct session *next;
    unsigned nuses;
};

static struct session *pool;
static unsigned nsessions;

static void session_to_pool(void *object, void *context)
{
    (void)context;
    struct session *session = object;
    session->next = pool;
    pool = session;
}

/* From the pool, or new. */
static struct session *session_get(void)
{
    struct session *session = pool;
    if (session != NULL) {
        pool = session->next;
        session->next = NULL;
    } else {
        session = tea_alloc(sizeof *session);
        nsessions++;
    }
    if (session == NULL || tea_set_finalizer(session, session_to_pool, NULL) != TEA_OK)
        return NULL;
    session->nuses++;
    return session;
}

static bool use_sessions(unsigned rounds, unsigned count)
{
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < count; i++)
            if (session_get() == NULL)
                return false;
        tea_collect();
        tea_run_finalizers();
    }
    return true;
}

int main(void)
{
    /* So that the numbers below do not depend on when the collector's thread comes to it. */
    tea_finalizer_mode(TEA_FINALIZE_ON_DEMAND);

    if (!use_streams(1000) || !use_sessions(10, 100))
        return 1;
    tea_collect();
    tea_run_finalizers();

    /* A stale word on the stack may keep one or the other. */
    bool closed = nopened == 1000 && nclosed + 5 >= nopened;
    bool reused = nsessions < 200;
    printf("streams: %u opened, %s\n", nopened, closed ? "closed" : "left open");
    printf("sessions: %s\n", reused ? "reused" : "not reused");
    return closed && reused ? 0 : 1;
}
