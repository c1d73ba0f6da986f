// What the options of plug-ins may be called.
#include <gtest/gtest.h>

#include "harness/errors.h"
#include "hone/registry.h"
#include "hone/schedule.h"

namespace hone::config {
namespace {

struct Within {
  double rate = 1, again = 2;
  static constexpr auto fields() {
    return std::tuple{field("rate", &Within::rate, "R."), field("rate", &Within::again, "R.")};
  }
};
struct Typed {
  std::string type;
  static constexpr auto fields() { return std::tuple{field("type", &Typed::type, "T.")}; }
};
struct Twice {
  double k = 1, other = 2;
  static constexpr auto fields() { return std::tuple{field("k", &Twice::k, "K."), field("k", &Twice::other, "K.")}; }
};
struct TwiceBelow {
  Within within;
  static constexpr auto fields() { return std::tuple{field("within", &TwiceBelow::within, "W.")}; }
};

template <class Options>
struct Flat final : Schedule {
  using Config = Options;
  explicit Flat(const Config&) {}
  double factor(std::int64_t, std::int64_t) const override { return 1; }
};

// `type` could never be set, and two of one name would both be.
TEST(CheckOptions, WhatNobodyCouldSetIsRefusedWhenAPlugInRegisters) {
  Registry<Schedule> schedules;
  EXPECT_HONE_ERROR(schedules.add<Flat<Typed>>("flat", "F."), usage, "schedule \"flat\": option \"type\"");
  EXPECT_HONE_ERROR(schedules.add<Flat<Twice>>("flat", "F."), usage, "schedule \"flat\": option \"k\": got two");
  EXPECT_HONE_ERROR(schedules.add<Flat<TwiceBelow>>("flat", "F."), usage, "option \"within.rate\": got two fields");
  EXPECT_TRUE(schedules.names().empty());
}

// A command's options are flags, among which --type is like any other.
TEST(CheckOptions, ACommandMayHaveAType) {
  EXPECT_NO_THROW(check_options("command \"c\"", describe(Typed()), /*chosen_by_type=*/false));
}

}  // namespace
}  // namespace hone::config
