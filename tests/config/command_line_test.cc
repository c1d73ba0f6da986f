// Flags, overrides and the environment.
#include "config/command_line.h"

#include <gtest/gtest.h>

#include "config/support.h"
#include "harness/errors.h"

namespace hone::config {
namespace {

using Lines = std::vector<std::string>;

struct Flags {
  std::int64_t max_new_tokens = 5;
  bool json = false, stream = true;
  std::vector<std::string> stop;
  std::optional<double> top_p;
  Inner inner;
  static constexpr auto fields() {
    using C = Flags;
    return std::tuple{field("max_new_tokens", &C::max_new_tokens, "N.", at_least(0)),
                      field("json", &C::json, "J."),
                      field("stream", &C::stream, "S."),
                      field("stop", &C::stop, "T."),
                      field("top_p", &C::top_p, "P."),
                      field("inner", &C::inner, "I.")};
  }
};

std::string failure(const Lines& arguments) {
  OptionsOf<Flags> options;
  try {
    parse_command_line(arguments, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    return error.what();
  }
  return "";
}

TEST(CommandLine, ReadsBothFormsOfFlags) {
  OptionsOf<Flags> options;
  const CommandLine line =
      parse_command_line({"model", "--max-new-tokens", "7", "--json", "--no-stream", "--stop", "a", "--stop=b",
                          "--top-p=0.5", "--inner.steps", "3", "--data.x=1", "--", "--odd"},
                         options, {true});
  EXPECT_EQ(line.positionals, (Lines{"model", "--odd"}));
  EXPECT_EQ(options.value.max_new_tokens, 7);
  EXPECT_TRUE(options.value.json);
  EXPECT_FALSE(options.value.stream);
  EXPECT_EQ(options.value.stop, (Lines{"a", "b"}));
  EXPECT_EQ(options.value.top_p, 0.5);
  EXPECT_EQ(options.value.inner.steps, 3);
  ASSERT_EQ(line.overrides.size(), 1u);
  EXPECT_EQ(line.overrides[0], (std::pair<std::string, std::string>{"data.x", "1"}));
  ASSERT_EQ(line.flags.size(), 7u);  // as they were given
  EXPECT_EQ(line.flags[0], (std::pair<std::string, std::string>{"max_new_tokens", "7"}));
  EXPECT_EQ(line.flags[2], (std::pair<std::string, std::string>{"stream", "false"}));
  EXPECT_EQ(line.flags[6], (std::pair<std::string, std::string>{"inner.steps", "3"}));
}

struct Common {
  bool json = false, quiet = false;
  static constexpr auto fields() {
    return std::tuple{field("json", &Common::json, "J."), field("quiet", &Common::quiet, "Q.")};
  }
};

TEST(CommandLine, FlagsOfAllCommandsStandBesideTheCommandsOwn) {
  OptionsOf<Flags> options;
  OptionsOf<Common> common;
  const CommandLine line = parse_command_line({"model", "--quiet", "--stop", "--json"}, options, {}, &common);
  EXPECT_EQ(line.positionals, (Lines{"model"}));
  EXPECT_TRUE(common.value.quiet);
  EXPECT_FALSE(common.value.json);  // it is the value of --stop
  parse_command_line({"--json", "--no-quiet"}, options, {}, &common);
  EXPECT_TRUE(common.value.json && options.value.json);
  EXPECT_FALSE(common.value.quiet);
  EXPECT_HONE_ERROR(parse_command_line({"--quite"}, options, {}, &common), usage, "did you mean --quiet?");
}

TEST(CommandLine, SaysWhichFlagsStandBeforeTheCommand) {
  OptionsOf<Flags> options;
  EXPECT_HONE_ERROR(parse_command_line({"r.yaml", "--plugin", "x.so"}, options, {true}), usage,
                    "--plugin: stands before the command: hone --plugin FILE COMMAND");
  EXPECT_HONE_ERROR(parse_command_line({"--debug"}, options, {true}), usage, "hone --debug COMMAND");
}

TEST(CommandLine, TakesWholeSectionsAsOverrides) {
  OptionsOf<Flags> options;
  const CommandLine line =
      parse_command_line({"--tokenizer", "bytes", "--run=out"}, options, {true, {"tokenizer", "run"}});
  EXPECT_EQ(line.overrides[0], (std::pair<std::string, std::string>{"tokenizer", "bytes"}));
  EXPECT_EQ(line.overrides[1], (std::pair<std::string, std::string>{"run", "out"}));
  EXPECT_HONE_ERROR(parse_command_line({"--tokeniser", "bytes"}, options, {true, {"tokenizer"}}), usage,
                    "--tokeniser: no such flag; did you mean --tokenizer?");
  EXPECT_HONE_ERROR(parse_command_line({"--tokenizer", "bytes"}, options, {false, {"tokenizer"}}), usage,
                    "no such flag");
}

TEST(CommandLine, OverridesThatAreTrueOrFalseNeedNoValue) {
  OptionsOf<Flags> options;
  const Overridable overrides{true, {"tokenizer"}, {"adapter.dora"}};
  const auto of = [&](const std::vector<std::string>& words) {
    return parse_command_line(words, options, overrides).overrides;
  };
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(of({"--adapter.dora", "--adapter.rank", "8"}),
            (std::vector<Pair>{{"adapter.dora", "true"}, {"adapter.rank", "8"}}));
  EXPECT_EQ(of({"--adapter.dora"}), (std::vector<Pair>{{"adapter.dora", "true"}}));
  EXPECT_EQ(of({"--adapter.dora=false"}), (std::vector<Pair>{{"adapter.dora", "false"}}));
  EXPECT_EQ(of({"--adapter.dora", "false"}), (std::vector<Pair>{{"adapter.dora", "false"}}));
  EXPECT_EQ(of({"--a.b", "-1"}), (std::vector<Pair>{{"a.b", "-1"}}));
  EXPECT_EQ(of({"--a.b", "-- and so on."}), (std::vector<Pair>{{"a.b", "-- and so on."}}));
  EXPECT_EQ(of({"--a.b=--c.d"}), (std::vector<Pair>{{"a.b", "--c.d"}}));
  for (const char* next : {"--adapter.dora", "--c.d=2", "--tokenizer", "--json"})
    EXPECT_HONE_ERROR(of({"--a.b", next}), usage, "--a.b: needs a value");
}

TEST(CommandLine, RefusesMistakesWithTheNearestFlag) {
  EXPECT_EQ(failure({"--max-new-token", "3"}),
            "1 problem in the command line\n  --max-new-token: no such flag; did you mean --max-new-tokens?");
  EXPECT_EQ(failure({"--max-new-tokens"}), "1 problem in the command line\n  --max-new-tokens: needs a value");
  EXPECT_EQ(failure({"--max-new-tokens=x"}),
            "1 problem in the command line\n  --max-new-tokens: got x, expected a whole number");
  EXPECT_NE(failure({"-x"}), "");
  EXPECT_NE(failure({"--a.b=1"}), "");
}

TEST(Environment, NamesRecipePathsByDoubleUnderscores) {
  const char* environment[] = {"PATH=/bin", "HONE_TRAINER__STEPS=5", "HONE_KERNELS=reference",
                               "HONE_OPTIMIZER__LEARNING_RATE=1e-3", nullptr};
  const auto overrides = environment_overrides(environment);
  ASSERT_EQ(overrides.size(), 2u);
  EXPECT_EQ(overrides[0].first, "optimizer.learning_rate");
  EXPECT_EQ(overrides[1], (std::pair<std::string, std::string>{"trainer.steps", "5"}));
}

}  // namespace
}  // namespace hone::config
