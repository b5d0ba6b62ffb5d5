#include "node/ask.h"

#include "node/clients.h"
#include "node/fake_node.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cstring>

namespace chaos::node {
namespace {

using test::error_of;
using test::FakeNode;
using test::json;
using test::Listener;
using test::TemporaryFolder;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(Ask, SaysWhyThereIsNobody) {
    const TemporaryFolder folder;
    const json request = {{"command", "echo"}};
    EXPECT_EQ(error_of(folder / "nowhere", request), "the folder " + (folder / "nowhere").string() + " does not exist");
    EXPECT_EQ(error_of(folder.write("file"), request), (folder / "file").string() + " is not a folder");
    EXPECT_EQ(error_of(folder.path(), request), folder.path().string() + " is no node's folder");
    folder.write("lock");
    EXPECT_THAT(error_of(folder.path(), request), HasSubstr("no node runs in " + folder.path().string()));
}

// What a node that dies in the middle, one that hangs and one that is none look like.
class BareSocket {
public:
    explicit BareSocket(const std::filesystem::path& dir) : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        std::strncpy(address.sun_path, (dir / "control.sock").c_str(), sizeof address.sun_path - 1);
        EXPECT_EQ(::bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(socket_, 1), 0);
    }
    ~BareSocket() { ::close(socket_); }
    BareSocket(const BareSocket&) = delete;
    BareSocket& operator=(const BareSocket&) = delete;

    // Sends this to the next client, and closes.
    void answer(const std::string& text) const {
        const int client = ::accept(socket_, nullptr, nullptr);
        EXPECT_EQ(::send(client, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
        ::close(client);
    }

private:
    int socket_;
};

TEST(Ask, AnAnswerThatBreaksOffIsAnError) {
    const TemporaryFolder folder;
    const BareSocket socket(folder.path());
    for (const std::string half : {"", "{\"number\":1", "{\"number\":1}\n"}) {
        Listener client(folder.path(), {{"command", "count"}});
        socket.answer(half);
        EXPECT_THAT(client.wait(), HasSubstr("broke off its answer")) << half;
    }
    Listener client(folder.path(), {{"command", "count"}});
    socket.answer("220 mail.example.org ESMTP\n");
    EXPECT_THAT(client.wait(), HasSubstr("is no node"));
}

TEST(Ask, PatienceEnds) {
    const TemporaryFolder folder;
    const BareSocket socket(folder.path());
    const auto silent = [](const json&) -> Result<void> { return {}; };
    const auto answer = ask(folder.path(), {{"command", "echo"}}, silent, 20ms);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message,
              "the node in " + folder.path().string() + " does not answer; its process hangs or is stopped");
}

TEST(Ask, TheListenerMayEndIt) {
    const TemporaryFolder folder;
    const FakeNode node(folder.path());
    const auto answer = ask(folder.path(), {{"command", "count"}, {"to", 5}},
                            [](const json&) -> Result<void> { return Error{"enough"}; });
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().message, "enough");
}

}  // namespace
}  // namespace chaos::node
