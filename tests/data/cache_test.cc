// The token cache: hits, misses, damage, and two builders at once.
#include "data/cache.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <mutex>

#include "base/hash.h"
#include "base/log.h"
#include "data/source_hash.h"
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
    const auto tokens = data::load_tokens(files({path_})[0], counting, options_, most_bytes_);
    values_ = all(*tokens.store);
    return counting.calls;
  }
  std::vector<std::string> in_the_folder(bool notes) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(options_.cache_folder))
      if (entry.path().filename().string().starts_with("source-") == notes) names.push_back(entry.path().string());
    return names;
  }
  // Without the notes of sources' hashes: whether there are any is a matter of time.
  std::vector<std::string> cached() const { return in_the_folder(false); }

  TempFolder folder_;
  Dataset::Options options_;
  std::string path_, log_;
  std::vector<std::int64_t> values_;
  std::uint64_t most_bytes_ = data::TokenPlace().most_bytes;
};

// Bytes of memory that no file stands behind.
std::int64_t memory_of_our_own() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("RssAnon:")) return 1024 * std::stoll(line.substr(8));
  return -1;
}

std::string all_of(const std::string& name) {
  std::ifstream file(name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Texts, pairs and ids; the first id that does not fit 16 bits comes with record `wide`.
std::string some_records(int count, int wide) {
  std::string content;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    content += i == wide       ? "{\"input_ids\": [70000, 2, 3], \"labels\": [-100, 5, -100]}\n"
               : i % 3 == 0    ? "{\"text\": \"record " + n + "\"}\n"
               : i % 3 == 1    ? "{\"prompt\": \"p" + n + "\", \"completion\": \"c\"}\n"
                               : "{\"input_ids\": [" + n + ", 2, 3], \"labels\": [-100, 5, -100]}\n";
  }
  return content;
}

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
  const std::string good = all_of(name);
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

TEST_F(Cache, WritesTheSameFileWhileTokensComeAsAfterwards) {
  for (const int wide : {-1, 0, 5, 150, 199}) {
    folder_.write("a.jsonl", some_records(200, wide));
    most_bytes_ = data::TokenPlace().most_bytes;
    calls();
    const std::string name = cached()[0], content = all_of(name);
    const auto made = values_;
    for (const std::uint64_t most : {1u, 100u, 1500u}) {
      std::filesystem::remove_all(options_.cache_folder);
      most_bytes_ = most;
      EXPECT_GT(calls(), 0);
      EXPECT_EQ(values_, made);
      EXPECT_EQ(cached(), std::vector{name});
      EXPECT_EQ(all_of(name), content);
    }
    std::filesystem::remove_all(options_.cache_folder);
  }
  EXPECT_EQ(log_, "");
}

TEST_F(Cache, HasTheSameTokensWhereTheFileCannotBeWrittenToItsEnd) {
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int wide : {-1, 150}) {
    folder_.write("a.jsonl", some_records(200, wide));
    most_bytes_ = 100;
    calls();
    const auto made = values_;
    const std::size_t size = all_of(cached()[0]).size();
    rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    for (std::size_t most = 0; most < size; most += 97) {
      std::filesystem::remove_all(folder_.file("cache"));
      log_.clear();
      const rlimit limit{most, before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &limit);
      calls();
      setrlimit(RLIMIT_FSIZE, &before);
      EXPECT_EQ(values_, made) << most;
      EXPECT_THAT(log_, HasSubstr("the token cache is not kept")) << most;
      EXPECT_EQ(log_.find('\n'), log_.size() - 1) << log_;
      EXPECT_FALSE(std::filesystem::exists(folder_.file("cache"))) << most;
    }
  }
  std::signal(SIGXFSZ, SIG_DFL);
}

// Notes how much memory there is while texts are tokenised.
class WatchingTokenizer final : public ByteTokenizer {
 public:
  Encoding encode(std::string_view text, bool special) const override {
    if (++calls_ % 256 == 0) {
      const std::scoped_lock lock(mutex_);
      most = std::max(most, memory_of_our_own());
    }
    return ByteTokenizer::encode(text, special);
  }
  mutable std::int64_t most = memory_of_our_own();

 private:
  mutable std::atomic<int> calls_{0};
  mutable std::mutex mutex_;
};

TEST_F(Cache, TakesLittleMemoryForManyTokens) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer keeps memory that was given back";
#endif
  const std::string record = "{\"text\": \"" + std::string(3000, 'a') + "\"}\n";
  std::string content;
  for (int i = 0; i < 16'000; ++i) content += record;
  folder_.write("a.jsonl", content);
  content = {};
  constexpr std::int64_t kIds = 96'000'000;  // bytes
  const auto peak = [&](std::uint64_t most_bytes) {
    std::filesystem::remove_all(options_.cache_folder);
    const WatchingTokenizer tokenizer;
    data::load_tokens(files({path_})[0], tokenizer, options_, most_bytes);
    return tokenizer.most;
  };
  const std::int64_t in_the_file = peak(1 << 20), in_memory = peak(1 << 30);  // records under way are in both
  EXPECT_GT(in_memory - in_the_file, kIds * 2 / 3);
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
  for (int round = 0; round < 6; ++round) {
    if (round >= 3) most_bytes_ = 500;
    std::filesystem::remove_all(options_.cache_folder);
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
      children.push_back(fork());
      if (children.back() != 0) continue;
      int status = 1;
      try {
        const auto tokens = data::load_tokens(files({path_})[0], ByteTokenizer(), options_, most_bytes_);
        status = tokens.store->docs() == 2000 && log_.empty() ? 0 : 2;
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

// A file that was not touched for a while is not read again for its hash.
TEST_F(Cache, NotesTheHashOfAFileThatHasSettled) {
  const auto note = [&] {
    const std::vector<std::string> notes = in_the_folder(true);
    return notes.empty() ? "" : notes[0];
  };
  EXPECT_EQ(calls(), 2);
  EXPECT_EQ(note(), "") << "it could change again within this tick of the clock";
  const auto age = [&] {  // the time of the last change cannot be set: it is waited for
    sleep(4);
  };
  age();
  EXPECT_EQ(calls(), 0);
  ASSERT_NE(note(), "");
  const auto made = values_;
  const std::string noted = all_of(note());
  folder_.write("a.jsonl", "{\"text\": \"two\"}\n");
  std::filesystem::last_write_time(path_, std::filesystem::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(calls(), 1) << "whatever its time of modification says";
  EXPECT_NE(values_, made);
  EXPECT_EQ(all_of(note()), noted);

  // That the note is what is gone by, also where it is wrong; one that cannot be read is none.
  const std::string wrong = "0123456789abcdef0123456789abcdef";
  age();
  EXPECT_EQ(calls(), 0);
  std::string text = all_of(note());
  text.replace(text.find("\"hash\":\"") + 8, wrong.size(), wrong);
  std::ofstream(note()) << text;
  EXPECT_EQ(data::SourceHash(path_, options_.cache_folder).hash(), wrong);
  EXPECT_EQ(data::SourceHash(path_, "").hash(), hash_file(path_));
  std::ofstream(note()) << "{}";
  EXPECT_EQ(data::SourceHash(path_, options_.cache_folder).hash(), hash_file(path_));
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
  EXPECT_THAT(error_of(ErrorKind::data, [&] { data::load_tokens(files({path_})[0], tokenizer, options_, 1); }),
              HasSubstr("changed while it was read"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("cache")));
}

}  // namespace
}  // namespace hone::test
