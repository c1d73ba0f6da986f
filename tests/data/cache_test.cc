// The token cache: hits, misses, damage, and two builders at once.
#include "data/cache.h"

#include <sys/wait.h>

#include <atomic>

#include "base/log.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

// Counts what is tokenised: a hit costs none.
class CountingTokenizer final : public ByteTokenizer {
 public:
  using ByteTokenizer::ByteTokenizer;
  Encoding encode(std::string_view text, bool special) const override {
    ++calls;
    return ByteTokenizer::encode(text, special);
  }
  mutable std::atomic<int> calls{0};
};

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.cache_folder = folder_.file("cache/tokens");
    path_ = folder_.write("a.jsonl",
                          "{\"text\": \"one\"}\n{\"prompt\": \"p\", \"completion\": \"c\"}\n"
                          "{\"input_ids\": [70000, 2, 3], \"labels\": [-100, 5, -100]}\n{\"text\": \"\"}\n");
    log::set_sink([this](log::Level level, std::string_view message) {
      if (level >= log::Level::warning) log_ += std::string(message) + "\n";
    });
  }
  void TearDown() override { log::set_sink({}); }

  std::vector<std::int64_t> all(const data::TokenStore& store) const {
    std::vector<std::int64_t> values(2 * store.size());
    store.copy_ids(0, store.size(), values.data());
    store.copy_labels(0, store.size(), values.data() + store.size());
    for (std::int64_t doc = 0; doc < store.docs(); ++doc)
      values.push_back(store.line(doc)), values.push_back(static_cast<std::int64_t>(store.end(doc)));
    values.insert(values.end(),
                  {store.counts().records, store.counts().empty, store.counts().not_text, store.counts().max_id});
    return values;
  }
  // How many texts were tokenised to get the file's tokens.
  int calls(const Tokenizer& tokenizer = ByteTokenizer()) {
    CountingTokenizer counting;
    static_cast<Tokenizer&>(counting) = tokenizer;
    const auto tokens = data::load_tokens(files({path_})[0], counting, options_);
    values_ = all(*tokens.store);
    return counting.calls;
  }
  std::vector<std::string> cached() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.cache_folder))
      names.push_back(entry.path().string());
    return names;
  }

  TempFolder folder_;
  Dataset::Options options_;
  std::string path_, log_;
  std::vector<std::int64_t> values_;
};

TEST_F(Cache, GivesTheSameTokensWithoutTokenising) {
  EXPECT_EQ(calls(), 2);
  const auto made = values_;
  EXPECT_EQ(calls(), 0);
  EXPECT_EQ(values_, made);
  options_.max_length = 7;  // cut after the cache
  options_.packing = Packing::none;
  EXPECT_EQ(calls(), 0);
  EXPECT_EQ(cached().size(), 1u);
  EXPECT_EQ(log_, "");
}

TEST_F(Cache, IsKeyedByEverythingThatDecidesTheTokens) {
  EXPECT_EQ(calls(), 2);
  EXPECT_EQ(calls(ByteTokenizer(true)), 2);
  options_.append_eos = false;
  EXPECT_EQ(calls(), 2);
  options_.append_eos = true;
  folder_.write("a.jsonl", "{\"text\": \"two\", \"story\": \"s\"}\n");
  EXPECT_EQ(calls(), 1);
  auto renamed = files({path_});
  renamed[0].columns = {{"text", "story"}};
  const CountingTokenizer tokenizer;
  data::load_tokens(renamed[0], tokenizer, options_);
  EXPECT_EQ(tokenizer.calls, 1);
  EXPECT_EQ(cached().size(), 5u);
}

TEST_F(Cache, IsRebuiltWhenAnyByteIsDamaged) {
  EXPECT_EQ(calls(), 2);
  const auto made = values_;
  const std::string name = cached()[0];
  std::ifstream in(name, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), {});
  std::size_t padding = 0;  // bytes between arrays mean nothing
  for (std::size_t at = 0; at < good.size() + 3; ++at) {
    std::string bad = good;
    if (at < good.size())
      bad[at] = static_cast<char>(bad[at] ^ 0x41);
    else
      bad = at == good.size() ? good + "x" : good.substr(0, at == good.size() + 1 ? good.size() - 1 : 7);
    std::ofstream(name, std::ios::binary) << bad;
    log_.clear();
    const int rebuilt = calls();
    EXPECT_EQ(values_, made) << at;
    if (rebuilt == 0) {
      ++padding;
      continue;
    }
    EXPECT_EQ(rebuilt, 2);
    EXPECT_THAT(log_, HasSubstr("damaged token cache"));
    EXPECT_EQ(calls(), 0);
  }
  EXPECT_LE(padding, 21u);
}

TEST_F(Cache, SurvivesAFolderThatCannotBeWritten) {
  folder_.write("file", "x");
  options_.cache_folder = folder_.file("file/below");
  EXPECT_EQ(calls(), 2);
  EXPECT_EQ(calls(), 2);
  EXPECT_THAT(log_, HasSubstr("the token cache is not kept"));
}

TEST_F(Cache, RemovesWhatAKilledBuilderLeft) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(calls(), 2);
  char host[65] = {};
  gethostname(host, sizeof host - 1);
  const std::string mine = std::filesystem::path(cached()[0]).filename().string();
  std::ofstream(std::filesystem::path(options_.cache_folder) / (".tmp-" + mine + "-0-" + std::to_string(child)))
      << "of another host";
  std::ofstream(std::filesystem::path(options_.cache_folder) / ".tmp-strange") << "not ours";
  options_.append_eos = false;
  EXPECT_EQ(calls(), 2);
  EXPECT_EQ(cached().size(), 4u);
}

TEST_F(Cache, IsBuiltByTwoProcessesAtOnce) {
  std::string content;
  for (int i = 0; i < 2000; ++i) content += "{\"text\": \"record " + std::to_string(i) + "\"}\n";
  folder_.write("a.jsonl", content);
  for (int round = 0; round < 5; ++round) {
    std::filesystem::remove_all(options_.cache_folder);
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      int status = 1;
      try {
        status = data::load_tokens(files({path_})[0], ByteTokenizer(), options_).store->docs() == 2000 && log_.empty()
                     ? 0
                     : 2;
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
      }
      std::fputs(log_.c_str(), stderr);
      _exit(status);
    }
    for (const pid_t child : children) {
      int status = -1;
      waitpid(child, &status, 0);
      EXPECT_EQ(status, 0);
    }
    EXPECT_EQ(cached().size(), 1u);
    EXPECT_EQ(calls(), 0);
  }
}

TEST_F(Cache, NoticesAFileThatChangesWhileItIsRead) {
  class Changing final : public ByteTokenizer {
   public:
    explicit Changing(std::string path) : path_(std::move(path)) {}
    Encoding encode(std::string_view text, bool special) const override {
      std::ofstream(path_, std::ios::app) << "{\"text\": \"more\"}\n";
      return ByteTokenizer::encode(text, special);
    }

   private:
    std::string path_;
  };
  const Changing tokenizer(path_);
  EXPECT_THAT(error_of(ErrorKind::data, [&] { data::load_tokens(files({path_})[0], tokenizer, options_); }),
              HasSubstr("changed while it was read"));
}

}  // namespace
}  // namespace hone::test
