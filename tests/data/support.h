// What the data tests share: a folder that goes away, a tokenizer of bytes, and errors as text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "hone/data.h"

namespace hone::test {

// A new folder, removed at the end of the test.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "hone-data-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempFolder() { std::filesystem::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << content;
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

// Ids 0..255 are the bytes; with special tokens 256 before and 257 after a text.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(bool bos = false, bool eos = false, bool has_eos = true) {
    if (bos) bos_id = 256;
    if (has_eos) eos_id = 257;
    adds_bos = bos;
    adds_eos = eos;
    fingerprint = std::string("bytes of the test ") + (bos ? "b" : "-") + (eos ? "e" : "-") + (has_eos ? "h" : "-");
  }
  Encoding encode(std::string_view text, bool special) const override {
    Encoding encoding;
    if (special && adds_bos) encoding.ids.push_back(256);
    encoding.offsets.resize(encoding.ids.size());
    for (std::uint32_t i = 0; i < text.size(); ++i) {
      encoding.ids.push_back(static_cast<unsigned char>(text[i]));
      encoding.offsets.emplace_back(i, i + 1);
    }
    if (special && adds_eos) encoding.ids.push_back(257);
    encoding.offsets.resize(encoding.ids.size());
    return encoding;
  }
  std::string decode(const std::vector<std::int32_t>& ids, bool) const override {
    std::string text;
    for (const std::int32_t id : ids)
      if (id < 256) text.push_back(static_cast<char>(id));
    return text;
  }
  std::int64_t vocab_size() const override { return 259; }
  std::optional<std::int32_t> id_of(std::string_view) const override { return std::nullopt; }
  std::optional<std::string> token_of(std::int32_t) const override { return std::nullopt; }
  bool is_special(std::int32_t id) const override { return id > 255; }
};

// The text of the Error that `work` throws, which must be of this kind; "" and a failure if it throws none.
template <class Work>
std::string error_of(ErrorKind kind, Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

inline std::vector<DataFile> files(const std::vector<std::string>& paths) {
  std::vector<DataFile> all;
  for (const std::string& path : paths) {
    all.emplace_back();
    all.back().path = path;
  }
  return all;
}

// The folder of real data sets; skips the test where there is none.
#define HONE_TEST_DATA_OR_SKIP(path)                      \
  const char* const path = std::getenv("HONE_TEST_DATA"); \
  if (path == nullptr) GTEST_SKIP() << "HONE_TEST_DATA is not set"

}  // namespace hone::test
