// Sums and texts over ranks.
#include "hone/world.h"

#include <ATen/ATen.h>

#include <mutex>

#include "dist/ranks.h"
#include "harness/errors.h"

namespace hone {
namespace {

TEST(World, AProcessAloneIsItsOwnTotal) {
  const World world;
  EXPECT_EQ(world.size(), 1);
  EXPECT_TRUE(world.is_first());
  EXPECT_EQ(world.total(Sums{{"rows", 2}}), (Sums{{"rows", 2}}));
  EXPECT_EQ(world.total(3.5), 3.5);
  EXPECT_EQ(world.gather("x"), std::vector<std::string>{"x"});
}

// Of sizes that a number of ranks divides, and others; as one would add them up by hand.
TEST(World, SumsAreMadeInRankOrderAndAreTheSameEverywhere) {
  for (const int ranks : {2, 3, 4}) {
    std::mutex mutex;
    int seen = 0;
    test::on_ranks(ranks, [&](const World& world) {
      for (const std::int64_t size : {1, 2, 7, 12, 1000})
        for (const auto type : {at::kFloat, at::kDouble}) {
          std::vector<at::Tensor> given;  // by rank, each three digits larger
          for (int rank = 0; rank < ranks; ++rank)
            given.push_back((at::arange(1, size + 1, type) * (rank + 1)).sin() * std::pow(10.0, 3 * rank));
          at::Tensor expected = given[0].clone();
          for (int rank = 1; rank < ranks; ++rank) expected += given[static_cast<std::size_t>(rank)];
          const at::Tensor& own = given[static_cast<std::size_t>(world.rank())];
          const at::Tensor before = own.clone(), total = world.total(own);
          const std::lock_guard lock(mutex);
          ++seen;
          EXPECT_TRUE(at::equal(total, expected)) << ranks << " ranks, " << size;
          EXPECT_TRUE(at::equal(own, before));
        }
    });
    EXPECT_EQ(seen, 10 * ranks);
  }
}

TEST(World, SumsByNameAreExactAndMayLackNames) {
  test::on_ranks(3, [](const World& world) {
    Sums own{{"tokens", 1e15 + world.rank()}, {"a name with blanks", 0.1}};
    if (world.rank() == 1) own["only there"] = -0.25;
    const Sums total = world.total(own);
    EXPECT_EQ(total.size(), 3u);
    EXPECT_EQ(total.at("tokens"), 3e15 + 3);
    EXPECT_EQ(total.at("a name with blanks"), 0.1 + 0.1 + 0.1);
    EXPECT_EQ(total.at("only there"), -0.25);
    EXPECT_EQ(world.total(static_cast<double>(world.rank())), 3);
  });
}

TEST(World, TextsOfAnyLengthComeInRankOrder) {
  for (const std::size_t length : {0, 10, 1016, 1017, 100'000}) {
    test::on_ranks(3, [&](const World& world) {
      const auto text = [&](int rank) { return std::string(rank == 1 ? length : 3, static_cast<char>('a' + rank)); };
      const std::vector<std::string> all = world.gather(text(world.rank()));
      ASSERT_EQ(all.size(), 3u);
      for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(all[static_cast<std::size_t>(rank)], text(rank));
      EXPECT_EQ(world.from_first(text(world.rank())), text(0));
    });
  }
}

// Of groups beside what all ranks do, which some have begun earlier than others.
TEST(World, GroupsExchangeBesideAllRanks) {
  test::on_ranks(4, [](const World& world) {
    const World pair = world.among(2), again = world.among(2), all = world.among(4);
    EXPECT_EQ(pair.size(), 2);
    EXPECT_EQ(pair.rank(), world.rank() % 2);
    EXPECT_EQ(world.among(1).size(), 1);
    const at::Tensor whole = at::full({8}, world.rank() + 1.0, at::kDouble), share = at::empty({2}, at::kDouble);
    std::unique_ptr<Begun> sum;
    if (world.rank() < 2) sum = world.begin_sum(whole, share);
    const at::Tensor from = at::arange(4, at::kDouble) + 10 * world.rank(), to = at::empty({4}, at::kDouble);
    for (const World& one : {pair, again}) {
      one.begin_all_to_all(from, to)->wait();
      const double first = 10 * (world.rank() - pair.rank()) + 2 * pair.rank();
      EXPECT_TRUE(at::equal(to, at::tensor({first, first + 1, first + 10, first + 11}, at::kDouble)));
    }
    if (!sum) sum = world.begin_sum(whole, share);
    sum->wait();
    EXPECT_TRUE(at::equal(share, at::full({2}, 10.0, at::kDouble)));
    EXPECT_EQ(pair.total(static_cast<double>(world.rank())), world.rank() < 2 ? 1 : 5);
    EXPECT_EQ(all.total(1.0), 4);
    EXPECT_GT(world.traffic().bytes, 3 * 2 * sizeof(double));
  });
}

TEST(World, RanksOfOnePlaceInTheirGroupsExchange) {
  test::on_ranks(4, [](const World& world) {
    const World alike = world.across(2);
    EXPECT_EQ(alike.size(), 2);
    EXPECT_EQ(alike.rank(), world.rank() / 2);
    EXPECT_EQ(alike.total(static_cast<double>(world.rank())), world.rank() % 2 == 0 ? 2 : 4);
    EXPECT_EQ(world.among(2).total(static_cast<double>(world.rank())), world.rank() < 2 ? 1 : 5);
    EXPECT_EQ(world.across(4).size(), 1);
    EXPECT_EQ(world.across(1).size(), 4);
  });
}

TEST(World, ARankThatDoesNotComeIsNamed) {
  dist::Store served = dist::Store::serve("127.0.0.1", 0);
  dist::Place place;
  place.rank = 1, place.size = 3, place.local_size = 3, place.port = served.port();
  EXPECT_HONE_ERROR(dist::Store::connect(place.address, place.port, 5).join(place, 1), peer,
                    "ranks 0, 2 of 3 have not come within 1 s");
}

// That no name server is asked is set by the environment, for that time alone.
TEST(World, TheEnvironmentIsAsItWas) {
  for (const char* before : {static_cast<const char*>(nullptr), "ndots:2"}) {
    before ? ::setenv("RES_OPTIONS", before, 1) : ::unsetenv("RES_OPTIONS");
    const dist::Store served = dist::Store::serve("127.0.0.1", 0);
    const dist::Store store = dist::Store::connect("127.0.0.1", served.port(), 5);
    EXPECT_STREQ(::getenv("RES_OPTIONS"), before);
  }
  ::unsetenv("RES_OPTIONS");
}

TEST(World, AStoreThatIsNotThereIsSaid) {
  EXPECT_HONE_ERROR(dist::Store::connect("127.0.0.1", 1, 1), peer, "looking for the store at 127.0.0.1:1");
}

}  // namespace
}  // namespace hone
