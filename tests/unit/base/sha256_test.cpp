#include "base/checksum/sha256.h"

#include <gtest/gtest.h>

#include <string>

#include "unit/base/checksum_texts.h"

namespace echelon {
namespace {

std::string hex(const Sha256& sum) {
  std::string text;
  for (const std::byte b : sum) {
    text += "0123456789abcdef"[static_cast<unsigned>(b) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(b) & 15];
  }
  return text;
}

// FIPS 180-4's examples, and NIST's vectors of no byte and of a million.
TEST(Sha256, KnowsThePublishedVectors) {
  EXPECT_EQ(hex(sha256({})), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256(view("abc"))), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256(view("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"))),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(view("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                            "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"))),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(hex(sha256(view(std::string(1000000, 'a')))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// RFC 4231, cases 1 to 4, 6 and 7: keys shorter and longer than a block.
TEST(HmacSha256, KnowsThePublishedVectors) {
  const auto mac = [](const std::string& key, const std::string& data) {
    return hex(hmac_sha256(view(key), view(data)));
  };
  EXPECT_EQ(mac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(mac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(mac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  std::string rising;
  for (int i = 1; i <= 25; ++i) rising += static_cast<char>(i);
  EXPECT_EQ(mac(rising, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(mac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(mac(std::string(131, '\xaa'),
                "This is a test using a larger than block-size key and a larger than block-size data. The "
                "key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(HmacSha256, SameMacSeesEveryBit) {
  const Sha256 mac = sha256(view("abc"));
  EXPECT_TRUE(same_mac(mac, mac));
  for (std::size_t bit = 0; bit < 8 * mac.size(); ++bit) {
    Sha256 other = mac;
    other[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(same_mac(mac, other)) << bit;
  }
}

}  // namespace
}  // namespace echelon
