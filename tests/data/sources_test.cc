// Sources: each kind of file, each way to be wrong.
#include <sys/stat.h>
#include <zlib.h>

#include "base/log.h"
#include "data/indexed_line.h"
#include "data/source.h"
#include "support.h"

namespace hone::test {
namespace {

using ::testing::HasSubstr;

std::vector<Record> read_as(const SourceFile& file) {
  const std::unique_ptr<Source> source = data::open_source(file);
  std::vector<Record> records;
  for (Record record; source->next(record);) records.push_back(record);
  return records;
}
std::string text_of(const Record& record) { return std::get<TextRecord>(record.content).text; }

std::pair<std::string, std::string> pair_of(const Record& record) {
  const auto& pair = std::get<PromptRecord>(record.content);
  return {pair.prompt, pair.completion};
}

std::vector<Record> read(const std::string& path) { return read_as({.path = path, .columns = {}, .header = {}}); }

std::string error_as(const SourceFile& file, ErrorKind kind = ErrorKind::data) {
  return error_of(kind, [&] { read_as(file); });
}
std::string read_error(const std::string& path) { return error_as({.path = path, .columns = {}, .header = {}}); }

TEST(Jsonl, ReadsEachFormOfRecord) {
  const TempFolder folder;
  const auto records = read(folder.write("a.jsonl",
                                         "{\"text\": \"one\", \"other\": 1}\n"
                                         "{\"prompt\": \"p\", \"completion\": \"c\"}\n"
                                         "{\"input_ids\": [1, 2, 3], \"labels\": [-100, 2, 3]}\n"
                                         "\"a string\"\n"));
  ASSERT_EQ(records.size(), 4u);
  EXPECT_EQ(text_of(records[0]), "one");
  EXPECT_EQ(pair_of(records[1]), (std::pair<std::string, std::string>("p", "c")));
  const IdsRecord& ids = std::get<IdsRecord>(records[2].content);
  EXPECT_EQ(ids.input_ids, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(ids.labels, (std::vector<std::int32_t>{-100, 2, 3}));
  EXPECT_EQ(text_of(records[3]), "a string");
  EXPECT_EQ(records[3].line, 4);
}

TEST(Jsonl, ToleratesByteOrderMarkCarriageReturnsBlankLinesAndNoLastNewline) {
  const TempFolder folder;
  const auto records = read(folder.write("a.jsonl", "\xEF\xBB\xBF{\"text\": \"one\"}\r\n\r\n   \n{\"text\": \"two\"}"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(text_of(records[1]), "two");
  EXPECT_EQ(records[1].line, 4);
}

TEST(Jsonl, IsReadFromJsonAndUnknownExtensions) {
  const TempFolder folder;
  for (const char* name : {"a.json", "a.ndjson", "a.data", "a"})
    EXPECT_EQ(read(folder.write(name, "{\"text\": \"x\"}\n{\"text\": \"y\"}\n")).size(), 2u) << name;
}

TEST(Jsonl, NamesLineAndColumnOfWhatIsNotJson) {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"one\"}\n\n{\"text\": \"two\" oops}\n");
  EXPECT_THAT(read_error(path), HasSubstr(path + ":3:16"));
  EXPECT_THAT(read_error(folder.write("b.jsonl", "{\"text\": \"one\"}\n{\"text\"")), HasSubstr("b.jsonl:2:"));
}

TEST(Jsonl, SaysThatAnObjectGoesOverSeveralLines) {
  const TempFolder folder;
  for (const char* content : {"{\n \"text\": \"a\"\n}\n", "{\n \"data\": [{\"text\": \"a\"}]\n}\n"})
    EXPECT_THAT(read_error(folder.write("a.json", content)),
                HasSubstr("a.json:1: an object that goes over several lines; expected one object on each line"));
}

TEST(Jsonl, ListsUnknownFieldsAndProposesColumns) {
  const TempFolder folder;
  const std::string qa = read_error(folder.write("a.jsonl", "{\"question\": \"q\", \"answer\": \"a\"}\n"));
  EXPECT_THAT(qa, HasSubstr("a.jsonl:1: no known fields; found \"answer\", \"question\""));
  EXPECT_THAT(qa, HasSubstr("columns: {prompt: question, completion: answer}"));
  EXPECT_THAT(read_error(folder.write("b.jsonl", "{\"prompt\": \"q\", \"response\": \"a\"}\n")),
              HasSubstr("columns: {completion: response}"));
  EXPECT_THAT(read_error(folder.write("c.jsonl", "{\"story\": \"s\", \"id\": 3}\n")),
              HasSubstr("columns: {text: story}"));
  EXPECT_THAT(read_error(folder.write("d.jsonl", "{\"messages\": []}\n")),
              HasSubstr("got an empty list, expected a list of messages"));
  EXPECT_THAT(read_error(folder.write("e.jsonl", "{}\n")), HasSubstr("found none"));
}

TEST(Jsonl, ReadsRenamedAndNestedFields) {
  const TempFolder folder;
  const std::string path =
      folder.write("a.jsonl", "{\"question\": \"q\", \"more\": {\"answer\": \"a\"}, \"text\": \"t\"}\n");
  const auto records =
      read_as({.path = path, .columns = {{"prompt", "question"}, {"completion", "more.answer"}}, .header = {}});
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(pair_of(records[0]), (std::pair<std::string, std::string>("q", "a")));
}

TEST(Jsonl, RefusesWrongColumns) {
  const TempFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"story\": \"q\"}\n");
  EXPECT_THAT(error_as({.path = path, .columns = {{"txt", "story"}}, .header = {}}, ErrorKind::config),
              HasSubstr("did you mean text?"));
  EXPECT_THAT(error_as({.path = path, .columns = {{"text", "tale"}}, .header = {}}),
              HasSubstr("no field \"tale\" to read text from; found \"story\""));
  EXPECT_THAT(
      error_as({.path = path, .columns = {{"text", "story"}, {"prompt", "story"}}, .header = {}}, ErrorKind::config),
      HasSubstr("more than one form"));
}

struct Wrong {
  const char* line;
  const char* says;
};
class JsonlWrong : public ::testing::TestWithParam<Wrong> {};
TEST_P(JsonlWrong, IsAnErrorWithLineAndReason) {
  const TempFolder folder;
  const std::string path = folder.write("w.jsonl", std::string("{\"text\": \"fine\"}\n") + GetParam().line + "\n");
  const std::string message = read_error(path);
  EXPECT_THAT(message, HasSubstr(path + ":2"));
  EXPECT_THAT(message, HasSubstr(GetParam().says));
}
INSTANTIATE_TEST_SUITE_P(
    Table, JsonlWrong,
    ::testing::Values(Wrong{"{\"text\": 5}", "field \"text\": got a number, expected a string"},
                      Wrong{"{\"text\": [\"a\"]}", "got a list (its first element is a string), expected a string"},
                      Wrong{"{\"text\": null}", "field \"text\": got null, expected a value"},
                      Wrong{"{\"prompt\": \"p\"}", "a prompt without a completion"},
                      Wrong{"{\"completion\": \"p\"}", "a completion without a prompt"},
                      Wrong{"{\"text\": \"t\", \"input_ids\": [1]}", "more than one form of record"},
                      Wrong{"{\"input_ids\": \"1 2\"}", "expected a list of integers"},
                      Wrong{"{\"input_ids\": [1, 2.5]}",
                            "field \"input_ids\": number 2 of the list is 2.5, expected a whole number"},
                      Wrong{"{\"input_ids\": [1, true]}", "number 2 of the list is a boolean"},
                      Wrong{"{\"input_ids\": [4294967296]}", "4294967296 does not fit 32 bits"},
                      Wrong{"{\"input_ids\": [-99999999999]}", "does not fit 32 bits"}, Wrong{"[1, 2]", "got a list"},
                      Wrong{"17", "got a number"}, Wrong{"null", "got null"}, Wrong{"{\"text\": \"\xFF\"}", "UTF-8"},
                      Wrong{"{\"text\": \"\\ud800\"}", "surrogate"},
                      Wrong{"{\"text\": \"a\"} {\"text\": \"b\"}", "w.jsonl:2:"},
                      Wrong{"{\"text\": \"a\", \"text\": \"b\"}", "text"}));

TEST(Json, StreamsAnArrayOfObjectsOrStrings) {
  const TempFolder folder;
  const auto records = read(folder.write("a.json",
                                         "\xEF\xBB\xBF [\n {\"text\": \"a ] \\\" , {\"}\n,\n \"plain [\",\n"
                                         " {\"text\":\n \"b\", \"x\": [1, {\"y\": []}]}\n]\n\n"));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(text_of(records[0]), "a ] \" , {");
  EXPECT_EQ(records[0].line, 2);
  EXPECT_EQ(text_of(records[1]), "plain [");
  EXPECT_EQ(text_of(records[2]), "b");
  EXPECT_EQ(records[2].line, 5);
  EXPECT_TRUE(read(folder.write("b.json", " [ ] ")).empty());
}

TEST(Json, NamesElementsOfOneLineByTheirIndex) {
  const TempFolder folder;
  const auto names = [&](const std::string& content) {
    std::vector<std::string> all;
    for (const Record& record : read(folder.write("a.json", content))) all.push_back(data::line_words(record.line));
    return all;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("[\"a\", \"b\" ,\"c\"]\n"), (Names{"1[0]", "1[1]", "1[2]"}));
  EXPECT_EQ(names("[\"a\",\n\"b\", \n\"c\"\n, \"d\"]"), (Names{"1", "2", "3", "4"}));
  EXPECT_EQ(names("[\"a\",\n{\"text\":\n\"b\"}, \"c\",\r\n\"d\",\"e\"\n]"), (Names{"1", "2", "3", "4[3]", "4[4]"}));
  EXPECT_EQ(names("[\"a\"]"), Names{"1"});
  EXPECT_THAT(read_error(folder.write("a.json", "[\"a\", 5]")), HasSubstr("a.json:1[1]: got a number"));
  std::string many = "[\"a\"";
  for (int i = 1; i < 1001; ++i) many += ", \"a\"";
  EXPECT_EQ(names(many + "]")[1000], "1[1000]");
  EXPECT_EQ(data::line_words(data::indexed_line(1 << 20, 7)), "1048576");  // there is no room for both
  EXPECT_EQ(data::line_words(data::indexed_line((1 << 20) - 1, (1 << 30) - 1)), "1048575[1073741823]");
  EXPECT_EQ(data::line_of(data::indexed_line(3, 7)), 3);
}

TEST(Json, ReadsElementsLongerThanABlock) {
  const TempFolder folder;
  const std::string big(300'000, 'x');
  const auto records = read(folder.write("a.json", "[\"" + big + "\", \"" + big + "y\"]"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(text_of(records[1]), big + "y");
}

TEST(Json, SaysWhereAnArrayIsBroken) {
  const TempFolder folder;
  const auto error = [&](const std::string& content) { return read_error(folder.write("a.json", content)); };
  EXPECT_THAT(error("[\"a\"\n\"b\"]"), HasSubstr("a.json:"));
  EXPECT_THAT(error("[\"a\",\n"), HasSubstr("a.json:2:1: the file ends inside the array"));
  EXPECT_THAT(error("[\"a\",\n\"b"), HasSubstr("the file ends inside the array"));
  EXPECT_THAT(error("[\"a\"] x"), HasSubstr("a.json:1:7: something follows the array"));
  EXPECT_THAT(error("[\"a\", ]"), HasSubstr("a.json:1"));
  EXPECT_THAT(error("[\"a\",, \"b\"]"), HasSubstr("a.json:1"));
  EXPECT_THAT(error("[[1]]"), HasSubstr("a.json:1: got a list"));
  EXPECT_THAT(error("[\n{\"text\": \"a\"},\n{\"text\":\n oops}]"), HasSubstr("a.json:4:2"));
  EXPECT_THAT(error("[}]"), HasSubstr("a.json:1"));
  EXPECT_THAT(error(std::string(100'000, '[')), HasSubstr("a.json:1"));
}

TEST(Text, IsOneDocumentByteForByte) {
  const TempFolder folder;
  const auto records = read(folder.write("a.txt", "\xEF\xBB\xBFone\r\n\r\ntwo\n"));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(text_of(records[0]), "one\r\n\r\ntwo\n");
  EXPECT_TRUE(read(folder.write("b.txt", "")).empty());
  EXPECT_TRUE(read(folder.write("c.txt", "\n \n\r\n")).empty());
  EXPECT_EQ(read(folder.write("README", "some words")).size(), 1u);
}

TEST(Text, RefusesWhatIsNoText) {
  const TempFolder folder;
  EXPECT_THAT(read_error(folder.write("a.txt", "one\ntw\xC3\x28")), HasSubstr("a.txt:2: invalid UTF-8 at byte 6"));
  EXPECT_THAT(read_error(folder.write("b.txt", std::string("one\0two", 7))), HasSubstr("a zero byte"));
  EXPECT_THAT(read_error(folder.write("c.txt", "\xFF\xFEo")), HasSubstr("iconv"));
  EXPECT_THAT(
      error_as({.path = folder.write("d.txt", "x"), .columns = {{"text", "y"}}, .header = {}}, ErrorKind::config),
      HasSubstr("no fields"));
}

TEST(Csv, RefusesColumnsThatOnlyConversationsHave) {
  const TempFolder folder;
  const std::string path = folder.write("a.csv", "prompt,completion,s\np,c,be kind\n");
  EXPECT_THAT(error_of(ErrorKind::config,
                       [&] { read_as({.path = path, .columns = {{"system", "s"}}, .header = {}}); }),
              HasSubstr("columns: \"system\" is read only with conversations, which " + path + ":2 is not"));
}

TEST(Csv, KeepsTheLineEndsInsideAField) {
  const TempFolder folder;
  const auto records = read(folder.write("a.csv", "text,n\r\n\"a\r\nb\n\r\r\n\",1\r\nc,2\r\n"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(text_of(records[0]), "a\r\nb\n\r\r\n");
  EXPECT_EQ(text_of(records[1]), "c");
}

TEST(Csv, ReadsWithAndWithoutHeader) {
  const TempFolder folder;
  const auto headed = read(folder.write("a.csv", "id,text\n1,\"one, \"\"1\"\"\nmore\"\n2,two\n"));
  ASSERT_EQ(headed.size(), 2u);
  EXPECT_EQ(text_of(headed[0]), "one, \"1\"\nmore");
  EXPECT_EQ(headed[1].line, 4);
  const std::string plain = folder.write("b.tsv", "ham\tGo until jurong point, crazy..\nspam\tFree entry\n");
  const auto records = read_as({.path = plain, .columns = {{"text", "2"}}, .header = {}});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(text_of(records[0]), "Go until jurong point, crazy..");
  const auto pairs = read_as({.path = plain, .columns = {{"prompt", "2"}, {"completion", "1"}}, .header = {}});
  EXPECT_EQ(pair_of(pairs[1]), (std::pair<std::string, std::string>("Free entry", "spam")));
}

TEST(Csv, DoesAsHeaderSays) {
  const TempFolder folder;
  const std::string path = folder.write("a.csv", "text,story\none,x\n");
  EXPECT_EQ(read_as({.path = path, .columns = {{"text", "1"}}, .header = false}).size(), 2u);
  EXPECT_EQ(read_as({.path = path, .columns = {}, .header = true}).size(), 1u);
}

TEST(Csv, TakesNumbersForPlacesWithAHeaderAndWithout) {
  const TempFolder folder;
  const auto texts = [&](const std::string& content, std::optional<bool> header) {
    std::vector<std::string> all;
    for (const Record& record :
         read_as({.path = folder.write("a.csv", content), .columns = {{"text", "3"}}, .header = header}))
      all.push_back(text_of(record));
    return all;
  };
  // A cell of data that happens to be the number is no name, and by numbers the first line is a record.
  EXPECT_EQ(texts("3,Wall St.,\"One, two\"\n4,Oil,Three\n", {}), (std::vector<std::string>{"One, two", "Three"}));
  EXPECT_EQ(texts("4,Oil,Three\n3,Gas,Four\n", false), (std::vector<std::string>{"Three", "Four"}));
  EXPECT_EQ(texts("id,title,body\n4,Oil,Three\n", true), (std::vector<std::string>{"Three"}));
  EXPECT_EQ(texts("id,title,\n4,Oil,Three\n", true), (std::vector<std::string>{"Three"}));
  EXPECT_EQ(texts("3,title,body\n4,Oil,Three\n", true), (std::vector<std::string>{"4"})) << "a name comes first";
  std::string told;
  log::set_sink([&](log::Level, std::string_view text) { told += text; });
  EXPECT_EQ(texts("id,title,body\n4,Oil,Three\n", {}), (std::vector<std::string>{"body", "Three"}));
  log::set_sink({});
  EXPECT_THAT(told, HasSubstr("the first line, \"id\", \"title\", \"body\", is read as a record; header: true"));
}

TEST(Csv, SaysThatSemicolonsSeparateNothing) {
  const TempFolder folder;
  EXPECT_THAT(read_error(folder.write("a.csv", "text;label\nhello;1\n")),
              HasSubstr("a.csv: semicolons between the names in its first line; expected commas"));
  EXPECT_THAT(read_error(folder.write("b.csv", "He came; he saw and left again.\n")), HasSubstr("no known fields"));
  const SourceFile by_number = {.path = folder.file("b.csv"), .columns = {{"text", "1"}}, .header = {}};
  EXPECT_EQ(text_of(read_as(by_number)[0]), "He came; he saw and left again.");
}

TEST(Csv, SaysThatLinesEndWithACarriageReturnAlone) {
  const TempFolder folder;
  for (const std::string content : {"text,label\rone,1\rtwo,2\r", "text\rone", "\"a\",\"b\"\r\"c\",\"d\"\r"})
    EXPECT_THAT(read_error(folder.write("a.csv", content)),
                HasSubstr("a.csv: its lines end with a carriage return alone (\\r), so that the whole file is one"));
  EXPECT_THAT(read_error(folder.write("a.tsv", "text\tlabel\rone\t1\r")), HasSubstr("expected \\n or \\r\\n"));
  EXPECT_EQ(read(folder.write("b.csv", "text\r\none\rtwo\r\n")).size(), 1u);  // a character of a text
  EXPECT_EQ(text_of(read(folder.write("b.csv", "text\r\n\"one\rtwo\"\r\n"))[0]), "one\rtwo");
}

TEST(Csv, SaysWhatIsWrong) {
  const TempFolder folder;
  EXPECT_THAT(read_error(folder.write("a.csv", "text,label\none\n")), HasSubstr("a.csv:2: got 1 fields, expected 2"));
  EXPECT_THAT(read_error(folder.write("b.csv", "question,answer\nq,a\n")),
              HasSubstr("columns: {prompt: question, completion: answer}"));
  EXPECT_THAT(read_error(folder.write("b.csv", "hello\nworld\n")), HasSubstr("header: false where it is a record"));
  EXPECT_THAT(read_error(folder.write("c.csv", "text,text\nq,a\n")), HasSubstr("two columns are named \"text\""));
  EXPECT_THAT(read_error(folder.write("d.csv", "text\n\xFF\n")), HasSubstr("d.csv:2: invalid UTF-8"));
  EXPECT_THAT(read_error(folder.write("e.csv", "input_ids\n5\n")), HasSubstr("input_ids in a text table"));
  EXPECT_THAT(read_error(folder.write("f.tsv", "1\tOne thing, or another.\n")), HasSubstr("found \"1\", \"2\""));
  EXPECT_TRUE(read(folder.write("g.csv", "")).empty());
  EXPECT_TRUE(read(folder.write("h.csv", "text\n")).empty());
}

TEST(Sources, LookThroughCompression) {
  const TempFolder folder;
  const std::string path = folder.file("a.jsonl.gz");
  gzFile file = gzopen(path.c_str(), "wb");
  gzputs(file, "{\"text\": \"zipped\"}\n");
  gzclose(file);
  const auto records = read(path);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(text_of(records[0]), "zipped");
}

TEST(Sources, RefusePicklesArchivesAndBinaryFiles) {
  const TempFolder folder;
  EXPECT_THAT(read_error(folder.write("a.data", "\x80\x04\x95payload")), HasSubstr("a pickle, which can run code"));
  EXPECT_THAT(read_error(folder.write("a.pkl", "anything")), HasSubstr("pickle"));
  EXPECT_THAT(read_error(folder.write("a.pt", "PK\x03\x04")), HasSubstr("pickle"));
  EXPECT_THAT(read_error(folder.write("a.jsonl", "PK\x03\x04")), HasSubstr("zip archive"));
  EXPECT_THAT(read_error(folder.write("a.arrow", "ARROW1")), HasSubstr("Parquet"));
  EXPECT_THAT(read_error(folder.write("a.dat", std::string("ab\0c", 4))), HasSubstr("not a text file"));
}

TEST(Sources, RefuseWhatIsNoRegularFile) {
  const TempFolder folder;
  mkfifo(folder.file("fifo.jsonl").c_str(), 0600);
  std::filesystem::create_symlink("nowhere", folder.file("broken.jsonl"));
  EXPECT_THAT(read_error(folder.file("fifo.jsonl")), HasSubstr("regular file"));
  EXPECT_THAT(read_error("/dev/zero"), HasSubstr("regular file"));
  EXPECT_THAT(read_error(folder.file("")), HasSubstr("regular file"));
  EXPECT_THAT(read_error(folder.file("missing.jsonl")), HasSubstr("No such file"));
  EXPECT_THAT(read_error(folder.file("broken.jsonl")), HasSubstr("No such file"));
}

}  // namespace
}  // namespace hone::test
