//! The JVM reads no proxy variables: Java's two clients, Maven. Case PT-2.

use super::{Lab, sh};

const SOURCE: &str = r"import java.net.*;
import java.net.http.*;
class N {
    public static void main(String[] urls) throws Exception {
        for (String u : urls) {
            try {
                var c = (HttpURLConnection) new URL(u).openConnection();
                c.setConnectTimeout(5000);
                System.out.println(c.getResponseCode());
            } catch (Exception e) { System.out.println(e.getClass().getSimpleName()); }
            try {
                var r = HttpRequest.newBuilder(URI.create(u)).build();
                System.out.println(HttpClient.newHttpClient().send(r, HttpResponse.BodyHandlers.ofString()).statusCode());
            } catch (Exception e) { System.out.println(e.getClass().getSimpleName()); }
        }
        System.exit(0);
    }
}
";

/// PT-2: both clients work or fail quickly, nothing is added to standard output, and a refused host stays refused.
#[test]
fn java_works_or_fails_fast() {
    let lab = Lab::start();
    for &caller in lab.callers() {
        let desk = lab.desk(caller);
        desk.write("N.java", SOURCE);
        let plain = "java ../N.java http://allowed.test/ http://denied.test/";
        assert_eq!(
            desk.control(&sh(plain)).output().success().stdout,
            "200\n".repeat(4)
        );
        lab.forget_hits();
        let start = std::time::Instant::now();
        let out = desk.boxed(&["allowed.test"], &sh(plain)).output().success();
        assert!(start.elapsed().as_secs() < 15, "{out}");
        let got: Vec<&str> = out.stdout.lines().collect();
        assert_eq!(got.len(), 4, "{out}");
        assert!(
            got[..2]
                .iter()
                .all(|l| *l == "200" || l.ends_with("Exception")),
            "{out}"
        );
        assert!(
            got[2..]
                .iter()
                .all(|l| *l == "403" || l.ends_with("Exception")),
            "{out}"
        );
        assert!(
            !lab.hits().iter().any(|h| h.contains("denied")),
            "{:?}",
            lab.hits()
        );

        // The remedy the manual gives: Java's own properties, from the variables.
        let told = "p=${http_proxy##*:}; java -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=${p%/} ../N.java http://allowed.test/ http://denied.test/";
        let out = desk.boxed(&["allowed.test"], &sh(told)).output().success();
        assert_eq!(out.stdout, "200\n200\n403\n403\n", "{out}");
        out.names_denied("denied.test:80");
    }
}

const POM: &str = "<project><modelVersion>4.0.0</modelVersion>
    <parent><groupId>test.lab</groupId><artifactId>parent</artifactId><version>1</version><relativePath/></parent>
    <artifactId>child</artifactId><packaging>pom</packaging>
    <repositories><repository><id>lab</id><url>http://maven.test/</url></repository></repositories>
</project>";

/// Maven refuses plain HTTP unless a mirror says otherwise.
const SETTINGS: &str = "<settings><mirrors><mirror><id>lab</id><url>http://maven.test/</url><mirrorOf>*</mirrorOf><blocked>false</blocked></mirror></mirrors></settings>";

/// Maven finds the parent of a project in a repository that the spec allows, and repeats the reason where it does not.
#[test]
fn maven_resolves_from_an_allowed_repository() {
    let lab = Lab::start();
    let script = "mvn -B -N -q -Dmaven.repo.local=$PWD/repository -s ../settings.xml validate >&2 && echo ok";
    for &caller in lab.callers() {
        for allow in [None, Some("maven.test"), Some("allowed.test")] {
            let desk = lab.desk(caller);
            desk.write("ws/pom.xml", POM)
                .write("settings.xml", SETTINGS);
            let command = allow.map_or_else(
                || desk.control(&sh(script)),
                |a| desk.boxed(&[a], &sh(script)),
            );
            let out = command.output();
            if allow == Some("allowed.test") {
                let out = out.failure();
                // Maven leaves its colour on, in front of whatever line comes next.
                assert!(
                    out.stderr
                        .contains("ccbox: denied network-outbound maven.test:80"),
                    "{out}"
                );
                let why = "Refused by sandbox policy: maven.test:80 not on the allow list";
                assert!(out.stderr.contains(why), "{out}");
            } else {
                let out = out.success();
                assert_eq!(out.stdout, "ok\n", "{out}");
            }
        }
    }
}
