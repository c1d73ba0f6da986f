// Lines of plain, gzip and zstd files; CSV and TSV rows.
#include "io/lines.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

#include <vector>

#include "harness/errors.h"
#include "harness/files.h"
#include "io/csv.h"

namespace hone::io {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string zstd(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

class Lines : public test::WithFolder {
 protected:
  std::vector<std::string> read(const std::string& content) {
    LineReader reader(folder_.write("file", content));
    std::vector<std::string> lines;
    for (std::string_view line; reader.next(line);) lines.emplace_back(line);
    EXPECT_EQ(reader.line(), static_cast<std::int64_t>(lines.size()));
    return lines;
  }
  using Expected = std::vector<std::string>;
};

TEST_F(Lines, EndsOfLinesAndMarksAreTakenOff) {
  EXPECT_EQ(read(""), Expected{});
  EXPECT_EQ(read("a\nb"), (Expected{"a", "b"}));
  EXPECT_EQ(read("a\r\n\r\nb\r\n"), (Expected{"a", "", "b"}));
  EXPECT_EQ(read("\xef\xbb\xbf{}\n"), (Expected{"{}"}));
  EXPECT_EQ(read("\n\n"), (Expected{"", ""}));
  EXPECT_EQ(read("a\rb\n"), (Expected{"a\rb"}));
  EXPECT_EQ(read(std::string("a\0b\n", 4)), (Expected{std::string("a\0b", 3)}));
}

TEST_F(Lines, CompressedFilesGiveTheSameLines) {
  std::string text;
  Expected lines;
  for (int i = 0; i < 100000; ++i) {
    lines.push_back("line " + std::to_string(i * 7919) + std::string(static_cast<std::size_t>(i % 90), 'x'));
    text += lines.back() + "\n";
  }
  EXPECT_EQ(read(text), lines);
  EXPECT_EQ(read(gzip(text)), lines);
  EXPECT_EQ(read(zstd(text)), lines);
  const std::size_t half = text.find('\n', text.size() / 2) + 1;
  EXPECT_EQ(read(gzip(text.substr(0, half)) + gzip(text.substr(half))), lines);  // as `cat a.gz b.gz` makes them
  EXPECT_EQ(read(zstd(text.substr(0, half)) + zstd(text.substr(half))), lines);
  EXPECT_EQ(read(gzip("")), Expected{});
  EXPECT_EQ(read(zstd("")), Expected{});
}

TEST_F(Lines, DamagedCompressedFilesAreErrors) {
  const std::string text(200000, 'x');
  for (const std::string& whole : {gzip(text + "\n"), zstd(text + "\n")}) {
    for (const std::size_t size : {whole.size() - 1, whole.size() / 2, std::size_t{12}})
      EXPECT_HONE_ERROR(read(whole.substr(0, size)), data, "ends inside its compressed data");
    std::string bad = whole;
    for (std::size_t i = 10; i < bad.size(); ++i) bad[i] = static_cast<char>(bad[i] ^ 0x55);
    EXPECT_HONE_ERROR(read(bad), data, "file: ");
  }
}

TEST_F(Lines, LongLinesAreWholeUpToTheLimit) {
  const std::string line(3'000'000, 'y');
  EXPECT_EQ(read(line + "\nz\n"), (Expected{line, "z"}));
  LineReader limited(folder_.write("long", "ok\n" + line), 1'000'000);
  std::string_view first;
  EXPECT_TRUE(limited.next(first));
  EXPECT_HONE_ERROR(limited.next(first), data, "long:2: a line of more than 1.0 MB");
}

TEST_F(Lines, OnlyRegularFilesAreRead) {
  EXPECT_HONE_ERROR(LineReader(folder_.path()), data, "not a regular file");
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_HONE_ERROR(LineReader(folder_ / "fifo"), data, "not a regular file");
  EXPECT_HONE_ERROR(LineReader(folder_ / "none"), data, "none: cannot open: No such file or directory");
}

TEST_F(Lines, ReadAllIsLimited) {
  EXPECT_EQ(ByteReader(folder_.write("a", gzip("12345"))).read_all(5), "12345");
  EXPECT_HONE_ERROR(ByteReader(folder_ / "a").read_all(4), data, "more than 4 B");
}

class Csv : public Lines {
 protected:
  using Rows = std::vector<std::vector<std::string>>;
  Rows rows(const std::string& content, char separator = ',') {
    CsvReader reader(folder_.write("t.csv", content), separator);
    Rows all;
    for (std::vector<std::string> row; reader.next(row);) all.push_back(row);
    return all;
  }
};

TEST_F(Csv, FollowsRfc4180) {
  EXPECT_EQ(rows("a,b\n1,2\n"), (Rows{{"a", "b"}, {"1", "2"}}));
  EXPECT_EQ(rows("a,\"b,\"\"c\"\"\",\r\n"), (Rows{{"a", "b,\"c\"", ""}}));
  EXPECT_EQ(rows("\"two\nlines\",x\n\ny,z"), (Rows{{"two\nlines", "x"}, {"y", "z"}}));
  EXPECT_EQ(rows("a\"b,c\n"), (Rows{{"a\"b", "c"}}));
  EXPECT_EQ(rows("\"\",\"\"\n"), (Rows{{"", ""}}));
  EXPECT_EQ(rows("\"\n\n\"\n"), (Rows{{"\n\n"}}));
}

TEST_F(Csv, SaysWhereAQuoteIsWrong) {
  EXPECT_HONE_ERROR(rows("a,b\n1,\"x\ny\n"), data, "t.csv:2: a quoted field of this row is never closed");
  EXPECT_HONE_ERROR(rows("a\n\"x\"y\n"), data, "t.csv:2: \"y\" after the closing quote");
}

TEST_F(Csv, CountsLinesNotRows) {
  CsvReader reader(folder_.write("t.csv", "\"a\nb\"\n\nc\n"));
  std::vector<std::string> row;
  ASSERT_TRUE(reader.next(row));
  EXPECT_EQ(reader.line(), 1);
  ASSERT_TRUE(reader.next(row));
  EXPECT_EQ(reader.line(), 4);
}

TEST_F(Lines, AHeadIsReadOnceMore) {
  for (const std::string& content : {std::string("ab\ncd\n"), gzip("ab\ncd\n")})
    for (const std::size_t most : {0, 1, 3, 6, 100}) {
      ByteReader bytes(folder_.write("a", content));
      EXPECT_EQ(bytes.head(most), std::string("ab\ncd\n").substr(0, most));
      LineReader lines(std::move(bytes));
      std::string_view line;
      ASSERT_TRUE(lines.next(line));
      EXPECT_EQ(line, "ab");
      ASSERT_TRUE(lines.next(line));
      EXPECT_EQ(line, "cd");
      EXPECT_FALSE(lines.next(line));
    }
}

TEST_F(Csv, TsvTakesAnUnclosedQuoteForACharacter) {
  EXPECT_EQ(rows("ham\t\"hello\nx\t\"q \"\"r\"\"\"\n", '\t'), (Rows{{"ham", "\"hello"}, {"x", "q \"r\""}}));
  EXPECT_EQ(rows("\"x\ty\"\tz\n", '\t'), (Rows{{"x\ty", "z"}}));
  EXPECT_EQ(rows("a\t\"b\"c\n", '\t'), (Rows{{"a", "\"b\"c"}}));
}

TEST_F(Csv, TsvGoesOnWhereTheLinesBetweenAreNoRows) {
  EXPECT_EQ(rows("text\n\"line1\nline2\"\nx\n", '\t'), (Rows{{"text"}, {"line1\nline2"}, {"x"}}));
  EXPECT_EQ(rows("n\ttext\n1\t\"a \"\"b\"\"\n\nc\"\n2\tx\n", '\t'),
            (Rows{{"n", "text"}, {"1", "a \"b\"\n\nc"}, {"2", "x"}}));
  EXPECT_EQ(rows("n\ttext\tm\n1\t\"a\r\nb\"\t2\r\n", '\t'), (Rows{{"n", "text", "m"}, {"1", "a\r\nb", "2"}}));
  // The next row has tabs, other fields, or a quote that closes nothing.
  EXPECT_EQ(rows("ham\t\"hello\nx\tand \"so\"\n", '\t'), (Rows{{"ham", "\"hello"}, {"x", "and \"so\""}}));
  EXPECT_EQ(rows("a\tb\n\"x\ty\nz\"\n", '\t'), (Rows{{"a", "b"}, {"\"x", "y"}, {"z\""}}));
  EXPECT_EQ(rows("a\tb\n\"x\ty\nz\"\tw\n", '\t'), (Rows{{"a", "b"}, {"\"x", "y"}, {"z\"", "w"}}));
  EXPECT_EQ(rows("text\n\"oh\nhe said \"no\"\n", '\t'), (Rows{{"text"}, {"\"oh"}, {"he said \"no\""}}));
  CsvReader reader(folder_.write("t.tsv", "\"a\n\nb\nc\n"), '\t');
  std::vector<std::int64_t> lines;
  for (std::vector<std::string> row; reader.next(row);) lines.push_back(reader.line());
  EXPECT_EQ(lines, (std::vector<std::int64_t>{1, 3, 4}));
}

TEST_F(Csv, ReadsARealTsvLineByLine) {
  HONE_NEEDS_DATA(path, "datasets/sms_spam/sms.tsv");
  CsvReader reader(path, '\t');
  std::int64_t count = 0;
  for (std::vector<std::string> row; reader.next(row); ++count) ASSERT_EQ(row.size(), 2u) << reader.where();
  EXPECT_EQ(count, 5574);
}

}  // namespace
}  // namespace hone::io
