import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.HdfsConfiguration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * Runs a NameNode and two DataNodes in this process, on loopback. Argument: an empty folder for their data.
 * Prints a line with the ports when all are up. Then it reads one command per line and answers "ok":
 * put LOCAL REMOTE, move FROM TO, kill DATANODE (0 or 1). The end of the input ends the process.
 */
public class HdfsUp {
    public static void main(String[] arguments) throws Exception {
        Configuration conf = new HdfsConfiguration();
        conf.set(MiniDFSCluster.HDFS_MINIDFS_BASEDIR, new File(arguments[0]).getAbsolutePath());
        conf.setInt("dfs.replication", 2);
        conf.setInt("dfs.blocksize", 1 << 20); // files of some megabytes have several blocks
        conf.setInt("dfs.heartbeat.interval", 1);
        conf.setInt("dfs.namenode.heartbeat.recheck-interval", 500);
        try (MiniDFSCluster cluster = new MiniDFSCluster.Builder(conf).numDataNodes(2).build()) {
            cluster.waitActive();
            DistributedFileSystem files = cluster.getFileSystem();
            while (files.isInSafeMode()) {
                Thread.sleep(100);
            }
            System.out.printf("{\"http\": %d, \"rpc\": %d}%n",
                cluster.getNameNode().getHttpAddress().getPort(), cluster.getNameNodePort());
            BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
            for (String line = commands.readLine(); line != null; line = commands.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "put":
                        files.copyFromLocalFile(false, true, new Path(words[1]), new Path(words[2]));
                        break;
                    case "move":
                        files.delete(new Path(words[2]), false);
                        files.rename(new Path(words[1]), new Path(words[2]));
                        break;
                    case "kill":
                        cluster.getDataNodes().get(Integer.parseInt(words[1])).shutdown();
                        break;
                    default:
                        throw new IllegalArgumentException(line);
                }
                System.out.println("ok");
            }
        }
        System.exit(0); // Hadoop's threads may linger
    }
}
