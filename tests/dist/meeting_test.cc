// Ranks that do not meet say which variable of the environment is wrong, and what to do.
#include "dist/meeting.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "dist/watchdog.h"
#include "harness/errors.h"

namespace hone::dist {
namespace {

Place place_at(int port, int rank) {
  Place place;
  place.rank = place.local_rank = rank, place.size = place.local_size = 2, place.port = port;
  return place;
}

// A program that is none of ours. It may answer as a web server does.
class Stranger {
 public:
  explicit Stranger(bool answers) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(socket_, 16), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&at), &size);
    port_ = ntohs(at.sin_port);
    if (answers)
      thread_ = std::thread([this] {
        for (int one = 0; (one = ::accept(socket_, nullptr, nullptr)) >= 0; ::close(one)) {
          char asked[64];
          const std::string answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
          if (::read(one, asked, sizeof asked) > 0 && ::write(one, answer.data(), answer.size()) < 0) break;
        }
      });
  }
  ~Stranger() {
    ::shutdown(socket_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    ::close(socket_);
  }
  int port() const { return port_; }

 private:
  int socket_ = -1, port_ = 0;
  std::thread thread_;
};

TEST(Meeting, ARankThatIsGivenTwiceIsNamedWithWhoHasIt) {
  Store served = Store::serve("127.0.0.1", 0);
  const Place place = place_at(served.port(), 1);
  Store store = connect(place, 5);
  claim_rank(store, place);
  claim_rank(store, place);  // by the same process: no other one
  served.set("rank/0", "process 1 of node0");
  Store other = connect(place_at(served.port(), 0), 5);
  EXPECT_HONE_ERROR(claim_rank(other, place_at(served.port(), 0)), peer,
                    "RANK: got 0, which process 1 of node0 has, too; expected another one for each process that meets "
                    "at 127.0.0.1:");
  EXPECT_FALSE(served.find(kToldKey)) << "all ranks were there: they go on without the one too many";
}

TEST(Meeting, OthersThatWaitForAMissingRankAreToldOfTheOneGivenTwice) {
  Store served = Store::serve("127.0.0.1", 0);
  served.set("rank/1", "process 1 of node0");
  const Place place = place_at(served.port(), 1);
  Store store = connect(place, 5);
  EXPECT_HONE_ERROR(claim_rank(store, place), peer, "RANK: got 1, which process 1 of node0 has, too");
  EXPECT_EQ(served.find(kToldKey).value_or("").substr(0, 15), "7 RANK: got 1, ");
}

TEST(Meeting, APortThatIsTakenIsAnotherRankZeroOrAnotherProgram) {
  Store served = Store::serve("127.0.0.1", 0);
  served.set("rank/0", "process 1 of node0");
  EXPECT_HONE_ERROR(maybe_serve(place_at(served.port(), 0)), peer, "RANK: got 0, which process 1 of node0 has, too");
  const Stranger stranger(false);
  EXPECT_HONE_ERROR(maybe_serve(place_at(stranger.port(), 0)), peer,
                    "MASTER_PORT: " + std::to_string(stranger.port()) + ": another program has this port");
  EXPECT_FALSE(maybe_serve(place_at(stranger.port(), 1)));
}

TEST(Meeting, NobodyAtThePlaceIsSaidByItsVariables) {
  const int nobody = 1;
  EXPECT_HONE_ERROR(connect(place_at(nobody, 1), 1), peer,
                    "MASTER_ADDR: \"127.0.0.1\": rank 0 has not been found there, at port 1 (MASTER_PORT), "
                    "within 1 s");
  EXPECT_HONE_ERROR(connect(place_at(nobody, 0), 1), peer,
                    "MASTER_ADDR: \"127.0.0.1\": what this process, rank 0, serves at port 1 (MASTER_PORT) is not to "
                    "be reached there; expected a name or an address of this machine");
  Place served = place_at(nobody, 0);
  served.store_is_served = true;
  EXPECT_HONE_ERROR(connect(served, 1), peer, "MASTER_ADDR: \"127.0.0.1\": the launcher's store has not been found");
}

// Also one that takes connections and never says a word, for which c10d would wait for ever.
TEST(Meeting, AnotherProgramAtThePlaceIsNoRankZero) {
  for (const bool answers : {true, false}) {
    const Stranger stranger(answers);
    EXPECT_HONE_ERROR(connect(place_at(stranger.port(), 1), 1), peer,
                      "MASTER_PORT: " + std::to_string(stranger.port()) +
                          ": another program than rank 0 is at \"127.0.0.1\" (MASTER_ADDR)");
  }
}

TEST(Meeting, ANameThatNobodyKnowsIsSaid) {
  Place place = place_at(1, 1);
  place.address = "no.such.invalid";
  EXPECT_HONE_ERROR(await_name(place, 0), peer, "MASTER_ADDR: \"no.such.invalid\": ");
}

TEST(Meeting, AStoreThatEndsIsSaidWithoutItsLibrarysWords) {
  auto served = std::make_unique<Store>(Store::serve("127.0.0.1", 0));
  Store store = connect(place_at(served->port(), 1), 5);
  served.reset();
  EXPECT_HONE_ERROR(store.find("x"), peer, "does not answer any more");
}

}  // namespace
}  // namespace hone::dist
