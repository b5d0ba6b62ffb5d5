#include "infer/direct_reader.h"

#include "base/assert.h"
#include "infer/huge_pages.h"
#include "infer/window_plan.h"

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace chaos::infer {
namespace {

constexpr std::size_t max_reader_threads = 4;

struct File {
    File(std::filesystem::path of, int descriptor, bool past_the_cache)
        : path(std::move(of)), fd(descriptor), direct(past_the_cache) {}
    File(File&& other) noexcept : path(std::move(other.path)), fd(std::exchange(other.fd, -1)), direct(other.direct) {}
    File& operator=(File&&) = delete;
    ~File() {
        if (fd >= 0) ::close(fd);
    }
    [[nodiscard]] Error error(int code) const {
        return Error{"cannot read " + path.string() + ": " + (code == 0 ? "it was cut off" : std::strerror(code))};
    }
    std::filesystem::path path;
    int fd = -1;
    bool direct = false;
};

// Some file systems refuse direct reads when the file is opened, some when it is read.
bool reads_directly(int fd, std::byte* block) {
    return fd >= 0 && ::pread(fd, block, direct_read_bytes, 0) >= 0;
}

Result<File> open_file(const std::filesystem::path& path) {
    CHAOS_TRY(const HugePages block, HugePages::allocate(direct_read_bytes));
    File direct(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECT), true);
    if (reads_directly(direct.fd, block.data())) return direct;
    File plain(path, ::open(path.c_str(), O_RDONLY | O_CLOEXEC), false);
    if (plain.fd < 0) return plain.error(errno);
    return plain;
}

// A read as far as it has come: systems may read less than they were asked for.
struct Pending {
    DirectReader::Read rest;
    // True when more is to be read.
    bool advance(std::size_t bytes) {
        rest.offset += bytes;
        rest.to = rest.to.subspan(bytes);
        return !rest.to.empty();
    }
};

class RingReader : public DirectReader {
public:
    // Takes the ring over.
    RingReader(File file, std::size_t depth, const io_uring& ring)
        : file_(std::move(file)), pending_(depth), ring_(ring) {}
    ~RingReader() override { ::io_uring_queue_exit(&ring_); }

    void start(const Read& read) override {
        CHAOS_ASSERT(read.tag < pending_.size());
        pending_[read.tag] = {read};
        submit(read.tag);
    }

    Done wait() override {
        while (true) {
            io_uring_cqe* entry = nullptr;
            if (const int code = ::io_uring_wait_cqe(&ring_, &entry); code != 0) {
                CHAOS_ASSERT(code == -EINTR || code == -EAGAIN);
                continue;
            }
            const auto tag = static_cast<std::size_t>(entry->user_data);
            const int result = entry->res;
            ::io_uring_cqe_seen(&ring_, entry);
            const bool interrupted = result == -EINTR || result == -EAGAIN;
            if (!interrupted && result <= 0) return {tag, file_.error(-result)};
            if (!interrupted && !pending_[tag].advance(static_cast<std::size_t>(result))) return {tag, std::nullopt};
            submit(tag);
        }
    }

    const char* name() const override { return "io_uring"; }

private:
    void submit(std::size_t tag) {
        const Read& read = pending_[tag].rest;
        io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
        CHAOS_ASSERT(entry != nullptr);
        ::io_uring_prep_read(entry, file_.fd, read.to.data(), static_cast<unsigned>(read.to.size()), read.offset);
        ::io_uring_sqe_set_data64(entry, tag);
        int code = 0;
        do {
            code = ::io_uring_submit(&ring_);
        } while (code == -EINTR || code == -EAGAIN || code == -EBUSY);
        CHAOS_ASSERT(code >= 0);
    }

    File file_;
    std::vector<Pending> pending_;
    io_uring ring_;
};

class ThreadReader : public DirectReader {
public:
    ThreadReader(File file, std::size_t depth) : file_(std::move(file)) {
        for (std::size_t i = 0; i < std::min(depth, max_reader_threads); ++i)
            threads_.emplace_back([this] { serve(); });
    }
    ~ThreadReader() override {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        wanted_changed_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    void start(const Read& read) override {
        {
            const std::lock_guard lock(mutex_);
            wanted_.push_back(read);
        }
        wanted_changed_.notify_one();
    }

    Done wait() override {
        std::unique_lock lock(mutex_);
        done_changed_.wait(lock, [this] { return !done_.empty(); });
        Done done = std::move(done_.front());
        done_.pop_front();
        return done;
    }

    const char* name() const override { return file_.direct ? "threads" : "threads, through the system's cache"; }

private:
    void serve() {
        std::unique_lock lock(mutex_);
        while (true) {
            wanted_changed_.wait(lock, [this] { return stopping_ || !wanted_.empty(); });
            if (stopping_) return;
            const Read read = wanted_.front();
            wanted_.pop_front();
            lock.unlock();
            Done done = perform(read);
            lock.lock();
            done_.push_back(std::move(done));
            done_changed_.notify_one();
        }
    }

    [[nodiscard]] Done perform(const Read& read) const {
        Pending pending{read};
        while (true) {
            const Read& rest = pending.rest;
            const ssize_t got = ::pread(file_.fd, rest.to.data(), rest.to.size(), static_cast<off_t>(rest.offset));
            if (got < 0 && errno == EINTR) continue;
            if (got <= 0) return {read.tag, file_.error(got < 0 ? errno : 0)};
            if (!pending.advance(static_cast<std::size_t>(got))) break;
        }
        // Only advice: where it is not taken, the cache is the system's to take back when it needs it.
        if (!file_.direct)
            static_cast<void>(::posix_fadvise(file_.fd, static_cast<off_t>(read.offset),
                                              static_cast<off_t>(read.to.size()), POSIX_FADV_DONTNEED));
        return {read.tag, std::nullopt};
    }

    File file_;
    std::mutex mutex_;  // for what is wanted, done, and the end: threads sleep until there is something to read
    std::condition_variable wanted_changed_;
    std::condition_variable done_changed_;
    std::deque<Read> wanted_;
    std::deque<Done> done_;
    bool stopping_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

Result<std::unique_ptr<DirectReader>> DirectReader::open(const std::filesystem::path& path, std::size_t depth,
                                                         Way way) {
    CHAOS_ASSERT(depth > 0);
    CHAOS_TRY(File file, open_file(path));
    io_uring ring{};
    std::unique_ptr<DirectReader> reader;
    // Where the system forbids the ring, or knows none, threads do.
    if (way == Way::best && file.direct && ::io_uring_queue_init(static_cast<unsigned>(depth), &ring, 0) == 0)
        reader = std::make_unique<RingReader>(std::move(file), depth, ring);
    else
        reader = std::make_unique<ThreadReader>(std::move(file), depth);
    return reader;
}

}  // namespace chaos::infer
